-- end_web_push.lua: ends a Web Push that a relay has taken, or stores when it is due again.
-- KEYS: stream. ARGV: prefix, id, user, delay in ms ('': ends), state of its attempts ('': none, because the user was
-- present), 1 if a push service has accepted it now, retention of traces in ms.
local stream, prefix = KEYS[1], ARGV[1]
local call = redis.call
-- include: notifications.lua
-- include: stream_entry.lua
-- include: web_push.lua

local id, user = ARGV[2], ARGV[3]
local item, key, delay = id .. ':' .. user, prefix .. KEY_WEB_PUSH .. id, ARGV[4]

if ARGV[6] == '1' and call('HGET', key, 'needs_ack') == '1' then
    record_event(id, 'pushed', integer_text(now_ms()), 0, '-', user)
    write_events(ARGV[7])
    if call('HGET', prefix .. KEY_ACK .. id, user) == '0' then receipts.record_pushed(id, user) end
end
-- One that was escalated since the lease is sent even if the user is present.
if delay == '' and ARGV[5] == '' and (call('HGET', key, 'state ' .. user) or '') ~= '' then delay = '0' end
if delay == '' or call('EXISTS', key) == 0 then
    end_web_push(id, user)
elseif call('ZSCORE', prefix .. KEY_WEB_PUSH_DUE, item) then
    call('ZADD', prefix .. KEY_WEB_PUSH_DUE, integer_text(now_ms() + tonumber(delay)), item)
    if ARGV[5] ~= '' then call('HSET', key, 'state ' .. user, ARGV[5]) end
end
return 1
