-- end_web_push.lua: ends a Web Push that a relay has taken, or stores when it is due again.
-- KEYS: stream. ARGV: prefix, id, user, delay in ms ('': ends), state of its attempts, 1 if a push service has
-- accepted it now, retention of traces in ms.
local stream, prefix = KEYS[1], ARGV[1]
local call = redis.call
-- include: notifications.lua
-- include: stream_entry.lua
-- include: web_push.lua

local id, user = ARGV[2], ARGV[3]
local item = id .. ':' .. user

if ARGV[6] == '1' and call('HGET', prefix .. KEY_WEB_PUSH .. id, 'needs_ack') == '1' then
    record_event(id, 'pushed', integer_text(now_ms()), 0, '-', user)
    write_events(ARGV[7])
    if call('HGET', prefix .. KEY_ACK .. id, user) == '0' then receipts.record_pushed(id, user) end
end
if ARGV[4] == '' or call('EXISTS', prefix .. KEY_WEB_PUSH .. id) == 0 then
    end_web_push(id, user)
elseif call('ZSCORE', prefix .. KEY_WEB_PUSH_DUE, item) then
    call('ZADD', prefix .. KEY_WEB_PUSH_DUE, integer_text(now_ms() + tonumber(ARGV[4])), item)
    call('HSET', prefix .. KEY_WEB_PUSH .. id, 'state ' .. user, ARGV[5])
end
return 1
