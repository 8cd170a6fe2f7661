-- last_id.lua: reads the ends of a stream without copying its entries, which may have megabytes.

-- Returns the position of the group, or nil.
local function group_position(stream)
    local groups = redis.pcall('XINFO', 'GROUPS', stream)
    for _, group in ipairs(groups.err and {} or groups) do
        local field = {}
        for i = 1, #group, 2 do field[group[i]] = group[i + 1] end
        if field.name == 'clairon' then return field['last-delivered-id'] end
    end
end

-- Returns the newest id ever, even if its stream entry was trimmed. XINFO STREAM copies the first
-- and the last entry, so the group moves to the end of the stream, and its position is read. A
-- store that rejects writes is read with XINFO STREAM.
local function last_generated_id(stream)
    if redis.call('EXISTS', stream) == 0 then return '0-0' end
    local moved = redis.pcall('XGROUP', 'SETID', stream, 'clairon', '$')
    local position = not moved.err and group_position(stream)
    if position then return position end
    local info = redis.call('XINFO', 'STREAM', stream)
    for i = 1, #info, 2 do
        if info[i] == 'last-generated-id' then return info[i + 1] end
    end
end
