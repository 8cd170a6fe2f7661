-- was_present.lua: returns 1 if a user has had a session on any relay since a time, otherwise 0.
-- KEYS: stream. ARGV: prefix, user, time in ms.
local prefix, user, since = ARGV[1], ARGV[2], tonumber(ARGV[3])
local call = redis.call

local relays = call('ZRANGEBYSCORE', prefix .. KEY_RELAYS, string.format('%.0f', since - STORE_PRESENCE_MS), '+inf')
for _, relay in ipairs(relays) do
    if call('SISMEMBER', prefix .. KEY_PRESENCE .. relay, user) == 1 then return 1 end
end
local left = call('ZSCORE', prefix .. KEY_LAST_SEEN, user)
return left and tonumber(left) >= since and 1 or 0
