-- large.lua: the index of the large stream entries: their sizes, and what scripts need of them. So no script
-- copies them.
-- include: route.lua

-- All members of KEY_LARGE have the same score. They begin with the padded id, so their order is that
-- of the stream. After it they have: bytes, notification id, r for a retry or -, the field `after` with commas instead of
-- spaces, and the start of the route.
local function large_key(stream) return stream:match('^(.*)' .. KEY_STREAM .. '$') .. KEY_LARGE end
local function large_start(entry) return string.format('%20s-%20s ', entry:match('^(%d+)-(%d+)$')) end

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
