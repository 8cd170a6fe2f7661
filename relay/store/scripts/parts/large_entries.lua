-- large_entries.lua: finds large stream entries, without copying them.
-- include: has_entry.lua
-- include: large.lua

-- Returns {member =, entry =, bytes =, id =, is_retry =, after = (or nil), route = (its start)}, or nil. An entry in the
-- index may have been deleted.
local function large_of(members)
    local ms, seq, bytes, id, kind, after, route = 
        (members[1] or ''):match('^ *(%d+)%- *(%d+) (%d+) (%S+) (%S) (%S*) (.*)$')
    return ms and {member = members[1], entry = ms .. '-' .. seq, bytes = tonumber(bytes), id = id,
        is_retry = kind == 'r', after = after ~= '' and after:gsub(',', ' ') or nil, route = route}
end

-- Returns the first large entry after an id.
local function next_large(stream, after)
    return large_of(redis.call('ZRANGEBYLEX', large_key(stream), '(' .. large_start(after) .. ':', '+', 'LIMIT', 0, 1))
end

-- Returns an entry if it is large, or nil.
local function large_at(stream, entry)
    local start = large_start(entry)
    return large_of(redis.call('ZRANGEBYLEX', large_key(stream), '[' .. start, '(' .. start .. ':', 'LIMIT', 0, 1))
end

-- Returns the number of bytes of an entry if it is large; otherwise 0.
local function large_bytes(stream, entry)
    local large = large_at(stream, entry)
    return large and large.bytes or 0
end

-- True if the entry exists. Otherwise it is removed from the index, unless the store rejects writes.
local function has_large(stream, large)
    local exists = has_entry(stream, large.entry)
    if not exists then redis.pcall('ZREM', large_key(stream), large.member) end
    return exists
end
