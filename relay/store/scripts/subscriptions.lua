-- subscriptions.lua: the list of a user's Web Push subscriptions.
-- KEYS: stream. ARGV: prefix, user, lifetime of a subscription in ms, and one of
--   save, maximum, id, subscription   adds or renews one, and removes the oldest beyond the maximum
--   remove, id, value                 removes it if its value is unchanged; empty value: always
--   read
-- Each returns the list, newest first: id, value, .. A value is the time in ms and the subscription.
local stream, prefix = KEYS[1], ARGV[1]
local call = redis.call
-- include: notifications.lua

local key, now = prefix .. KEY_SUBSCRIPTIONS .. ARGV[2], now_ms()
local oldest = now - tonumber(ARGV[3])
local action, id, max = ARGV[4], ARGV[5], math.huge

if action == 'save' then
    max, id = tonumber(ARGV[5]), ARGV[6]
    call('HSET', key, id, integer_text(now) .. ' ' .. ARGV[7])
    call('PEXPIRE', key, ARGV[3])
elseif action == 'remove' and (ARGV[6] == '' or call('HGET', key, id) == ARGV[6]) then
    call('HDEL', key, id)
end

local fields, found, list = call('HGETALL', key), {}, {}
for at = 1, #fields, 2 do
    -- The clock may have been set back: the saved subscription is always the newest.
    local is_saved = action == 'save' and fields[at] == id
    found[#found + 1] = { id = fields[at], value = fields[at + 1],
        time = is_saved and math.huge or tonumber(fields[at + 1]:match('^%d+')) }
end
table.sort(found, function(a, b)
    if a.time ~= b.time then return a.time > b.time end
    return a.id < b.id
end)
for at, each in ipairs(found) do
    if at > max or each.time <= oldest then
        call('HDEL', key, each.id)
    else
        list[#list + 1] = each.id
        list[#list + 1] = each.value
    end
end
return list
