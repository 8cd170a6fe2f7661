-- renew_covered.lua: covered.lua for a relay that connects, and may not read the notification that has the position.
-- include: covered.lua

local function renew_covered(prefix)
    local progress = redis.call('HGET', prefix .. KEY_META, META_PROGRESS)
    local owner = progress and redis.call('HGET', progress, 'owner')
    if not owner then return end
    local state = redis.call('HMGET', progress, 'read:' .. owner, 'timeline')
    local newest = redis.call('XREVRANGE', prefix .. KEY_COVERED, '+', '-', 'COUNT', 1)[1]
    -- Without the stream, another node of a cluster may have it: then no key may be added here.
    if not newest then return end
    -- It is this position, or rewind.lua has set it: then the new epoch does not cover it.
    if newest[2][2] == state[1] then return end
    pcall(add_covered, prefix, state[1] or '', state[2]) -- a store that is full can still be read
end
