-- audit_names.lua: the names in the stream of audit lines. The stream has their hashes. The string KEY_AUDIT_NAME of a hash
-- has the name; '' after `clairon forget`, so that a later act does not name the user again. Each use renews it.

-- Returns the first id of the stream that is not too old.
local function oldest_audit_entry()
    local time = redis.call('TIME')
    return string.format('%.0f-0', time[1] * 1000 + math.floor(time[2] / 1000) - STORE_AUDIT_KEPT_MS)
end

local function keep_name(name, hash)
    local key = ARGV[1] .. KEY_AUDIT_NAME .. hash
    if not redis.call('SET', key, name, 'NX', 'PX', STORE_AUDIT_KEPT_MS) then redis.call('PEXPIRE', key, STORE_AUDIT_KEPT_MS) end
end

-- Acts that name the user, older ones, those that a relay has not stored yet, and newer ones, then have only the hash.
local function forget_name(hash)
    redis.call('SET', ARGV[1] .. KEY_AUDIT_NAME .. hash, '', 'PX', STORE_AUDIT_KEPT_MS)
end
