-- pending.lua: how many messages lack acknowledgements, and since when the oldest of them does.
-- KEYS: stream. ARGV: prefix.
-- Returns {how many, the ms of its commit; 0 where there is none}.
local stream, prefix = KEYS[1], ARGV[1]
local call = redis.call
-- include: delivery.lua
-- include: stream_entry.lua

local pending = call('XPENDING', stream, 'clairon')

-- The first entry that is pending; a copy for a retry is as old as what it is a copy of.
local function first_pending()
    local entry = pending[2]
    local row = entry and call('XRANGE', stream, entry, entry)[1]
    for i = 1, row and #row[2] or 0, 2 do
        if row[2][i] == 'route' then return commit_ms(row[2][i + 1]) end
    end
    return entry and tonumber(entry:match('^%d+'))
end

local oldest = first_pending()
local retried = oldest and oldest_retried(1)[1]
if retried and retried.commit < oldest then oldest = retried.commit end
return {pending[1], whole(oldest or 0)}
