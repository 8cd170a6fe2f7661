-- record_large.lua: adds entries to the index of large stream entries.
-- include: route.lua
-- include: large.lua

-- Adds an entry with this number of bytes if it is large. Its further fields follow.
local function record_large(stream, entry, bytes, id, route, ...)
    if bytes < STORE_LARGE_BYTES then return end
    local after, kind, fields = '', '-', {...}
    for i = 1, #fields, 2 do
        if fields[i] == 'after' then after = fields[i + 1]:gsub(' ', ',') end
        if fields[i] == 'retry_users' then kind = 'r' end
    end
    local _, to = topic_at(route) -- a route may have a million targets
    local start = string.sub(route, 1, to or #route)
    local member = large_start(entry) .. table.concat({bytes, id, kind, after, start}, ' ')
    redis.call('ZADD', large_key(stream), 0, member)
end
