-- large_entries.lua: finds large stream entries, without copying them.
-- include: has_entry.lua
-- include: large.lua

-- Returns {member =, entry =, bytes =}, or nil. An entry in the index may have been deleted.
local function large_of(members)
    local ms, seq, bytes = (members[1] or ''):match('^ *(%d+)%- *(%d+) (%d+)$')
    return ms and {member = members[1], entry = ms .. '-' .. seq, bytes = tonumber(bytes)}
end

-- Returns the first large entry after an id.
local function next_large(stream, after)
    return large_of(redis.call('ZRANGEBYLEX', large_key(stream), '(' .. large_start(after) .. ':', '+', 'LIMIT', 0, 1))
end

-- Returns the last large entry before an id, or '+'.
local function previous_large(stream, before)
    local from = before == '+' and '+' or '(' .. large_start(before)
    return large_of(redis.call('ZREVRANGEBYLEX', large_key(stream), from, '-', 'LIMIT', 0, 1))
end

-- Returns the number of bytes of an entry if it is large; otherwise 0.
local function large_bytes(stream, entry)
    local start = large_start(entry)
    local large = large_of(redis.call('ZRANGEBYLEX', large_key(stream), '[' .. start, '(' .. start .. ':', 'LIMIT', 0, 1))
    return large and large.bytes or 0
end

-- True if the entry exists. Otherwise it is removed from the index, unless the store rejects writes.
local function has_large(stream, large)
    local exists = has_entry(stream, large.entry)
    if not exists then redis.pcall('ZREM', large_key(stream), large.member) end
    return exists
end

-- Returns the id of the oldest stream entry, or nil.
local function oldest_entry(stream)
    local large = next_large(stream, '0-0')
    while true do
        local first = redis.call('XRANGE', stream, '-', large and '(' .. large.entry or '+', 'COUNT', 1)[1]
        if first or not large then return first and first[1] end
        if has_large(stream, large) then return large.entry end
        large = next_large(stream, large.entry)
    end
end
