-- forget_sessions.lua: the sessions of a user whom `clairon forget` removes, and what relays store of them.
-- KEYS: stream (selects the slot). ARGV: prefix, user, hash of the name, '' except in shard 0, and one of
--   close  asks all relays to end the sessions; in shard 0
--   count  returns the number of live relays with a session of the user
--   end    removes the user's presence, and the name from the audit lines
-- Returns the number of relays; with `end`, that of the user's memberships, which are those of clairon.member.
local prefix, user, hash, call = ARGV[1], ARGV[2], ARGV[3], redis.call
-- include: audit_names.lua

local function relays_with_user()
    local time, count = call('TIME'), 0
    local oldest = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000) - STORE_PRESENCE_MS)
    for _, relay in ipairs(call('ZRANGEBYSCORE', prefix .. KEY_RELAYS, oldest, '+inf')) do
        count = count + call('SISMEMBER', prefix .. KEY_PRESENCE .. relay, user)
    end
    return count
end

if ARGV[4] == 'close' then
    call('XADD', prefix .. KEY_CONTROL, 'MAXLEN', '~', STORE_CONTROL_MAX, '*', 'change', 'forgotten', 'hash', hash)
elseif ARGV[4] == 'end' then
    for _, relay in ipairs(call('ZRANGE', prefix .. KEY_RELAYS, 0, -1)) do call('SREM', prefix .. KEY_PRESENCE .. relay, user) end
    call('ZREM', prefix .. KEY_LAST_SEEN, user)
    call('HDEL', prefix .. KEY_ENDED, user)
    if hash ~= '' then forget_name(hash) end
    return call('SCARD', prefix .. KEY_GROUPS .. user)
end
return relays_with_user()
