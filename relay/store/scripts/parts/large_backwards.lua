-- large_backwards.lua: reads a stream backwards, and its oldest entry, without copying large entries.
-- include: large_entries.lua

-- Returns the last large entry before an id, or '+', and after an id, or '-'.
local function previous_large(stream, before, after)
    local from = before == '+' and '+' or '(' .. large_start(before)
    local to = after == '-' and '-' or '(' .. large_start(after) .. ':'
    return large_of(redis.call('ZREVRANGEBYLEX', large_key(stream), from, to, 'LIMIT', 0, 1))
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

-- Returns a function that returns the next entry of a stream, from `last`, which is '+' or follows a '(', back to `first`,
-- which is '-' or follows a '(': the id, and the row of a small entry, or nil and a large one. Returns nil at the end.
local function backwards(stream, last, first)
    local large, is_known
    return function()
        while true do
            if not is_known then large, is_known = previous_large(stream, last:match('[^(]+'), first:match('[^(]+')), true end
            local row = redis.call('XREVRANGE', stream, last, large and '(' .. large.entry or first, 'COUNT', 1)[1]
            if not row and not large then return nil end
            last = '(' .. (row or {large.entry})[1]
            if row then return row[1], row end
            is_known = false
            if has_large(stream, large) then return large.entry, nil, large end
        end
    end
end
