-- ack.lua: users acknowledge messages; the last one acknowledges the message as a whole.
-- KEYS: stream. ARGV: prefix, now in ms, then pairs of user and message id.
-- Returns {acks that were new, messages that are complete}.
local stream, prefix, now = KEYS[1], ARGV[1], ARGV[2]
local call = redis.call
local acked, completed = 0, 0

local function complete(id)
    local entry = call('HGET', prefix .. ':pending', id)
    if entry then call('XACK', stream, 'clairon', entry) end
    call('HDEL', prefix .. ':pending', id)
    call('HDEL', prefix .. ':left', id)
    call('DEL', prefix .. ':ack:' .. id)
    completed = completed + 1
end

for i = 3, #ARGV, 2 do
    local user, id = ARGV[i], ARGV[i + 1]
    local key = prefix .. ':ack:' .. id
    if call('HGET', key, user) == '0' then
        call('HSET', key, user, now)
        call('ZREM', prefix .. ':inbox:' .. user, id)
        acked = acked + 1
        if call('HINCRBY', prefix .. ':left', id, -1) <= 0 then complete(id) end
    end
end
return {acked, completed}
