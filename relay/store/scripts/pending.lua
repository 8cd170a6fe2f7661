-- pending.lua: returns the number of pending notifications, and the oldest commit time.
-- KEYS: stream. ARGV: prefix.
-- Returns {number, commit time in ms or 0}.
local stream, prefix = KEYS[1], ARGV[1]
local call = redis.call
-- include: delivery.lua
-- include: stream_entry.lua

local pending = call('XPENDING', stream, 'clairon')

-- Returns the commit time of the first pending stream entry. If the entry was deleted, returns the
-- time in its id.
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
return {pending[1], integer_text(oldest or 0)}
