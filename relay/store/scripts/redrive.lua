-- redrive.lua: gives the users of an entry of the error log their message anew, from attempt 0.
-- KEYS: stream. ARGV: prefix, entry of the error log, message id, route, data, end in ms or 0, how
-- long trails are kept in ms, users.
-- Returns how many of them are waited for now; -1 when the entry is gone.
local stream, prefix = KEYS[1], ARGV[1]
local call = redis.call
-- include: delivery.lua
-- include: copy.lua

local errors, id, ends, now = prefix .. ':errors', ARGV[3], tonumber(ARGV[6]), now_ms()
if #call('XRANGE', errors, ARGV[2], ARGV[2]) == 0 then return -1 end

-- Who acked meanwhile has no need of it.
local users = {}
for at = 8, #ARGV do
    local state = call('HGET', prefix .. ':ack:' .. id, ARGV[at])
    if not state or state == '0' then users[#users + 1] = ARGV[at] end
end
if #users > 0 then
    -- Others may still be waited for: then it takes the place of their entry.
    local found = read_entry(id) or {id = id}
    found.route, found.data = ARGV[4], ARGV[5]
    if found.open and ends > 0 then found.open = whole(ends) end
    local score = score_of(replace_entry(found, 0, users))
    local key, message = prefix .. ':ack:' .. id, messages[id]
    message.open, message.ends = message.open and tonumber(found.open), message.ends or ends > 0
    for _, user in ipairs(users) do
        if call('HSET', key, user, '0') == 1 then message.left = message.left + 1 end
        call('HDEL', prefix .. ':tries:' .. id, user)
        call('ZREM', prefix .. ':due', id .. ':' .. user)
        call('ZADD', prefix .. ':inbox:' .. user, 'NX', score, id)
        note_event(id, 'redriven', whole(now), 0, '-', user)
    end
    if ends > 0 then call('ZADD', prefix .. ':due', whole(ends), id .. ':') end
end
call('XDEL', errors, ARGV[2])
save_messages()
write_events(ARGV[7])
return #users
