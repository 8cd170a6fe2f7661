-- ack.lua: users acknowledge messages; the last one acknowledges the message as a whole.
-- KEYS: stream. ARGV: prefix, the name of who stores them, then pairs of user and message id.
-- Returns {acks that were new, messages that are complete}.
local stream, prefix = KEYS[1], ARGV[1]
local call = redis.call
-- include: delivery.lua

local ACKED_MAX = 256 -- records of the stream: readers follow it closely
local now = now_ms()
local acked, completed, told = 0, 0, {}

local function take(user, id)
    call('ZREM', prefix .. ':inbox:' .. user, id)
    call('ZREM', prefix .. ':due', id .. ':' .. user)
    note_event(id, 'acked', now, 0, '-', user)
    acked = acked + 1
    told[#told + 1] = string.char(math.floor(#user / 256), #user % 256) .. user ..
        string.char(0, #id) .. id
end

for at = 3, #ARGV, 2 do
    local user, id = ARGV[at], ARGV[at + 1]
    local key = prefix .. ':ack:' .. id
    local state = call('HGET', key, user)
    if state == '0' then
        take(user, id)
        local left = call('HINCRBY', prefix .. ':left', id, -1)
        if left <= 0 and call('HEXISTS', prefix .. ':open', id) == 0 then
            complete(id)
            completed = completed + 1
        else
            call('HSET', key, user, whole(now))
        end
    elseif not state and call('HEXISTS', prefix .. ':open', id) == 1 then
        -- Before the report that it was shown, which comes by another relay: the ack wins.
        take(user, id)
        call('HSET', key, user, whole(now))
    end
end
if acked > 0 then
    call('XADD', prefix .. ':receipts', 'MAXLEN', '~', ACKED_MAX, '*', 'by', ARGV[2],
        'acks', table.concat(told))
end
write_events()
return {acked, completed}
