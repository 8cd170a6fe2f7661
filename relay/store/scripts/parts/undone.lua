-- undone.lua: records which stored transactions a restore or a failover has undone. The database
-- assigns their ids again, and no snapshot contains them.
-- include: route.lua
-- include: last_id.lua

-- The field `undone` of `meta` has a line for each such event, oldest first: the newest stream entry
-- at that time, the newest entry of the control stream, and the LSN from which on earlier
-- notifications are undone. The field `undone_count` is the number of events.
local UNDONE_LINES = 16

local function undone_lines(meta)
    local lines = {}
    for id, control, lsn in (redis.call('HGET', meta, META_UNDONE) or ''):gmatch('(%S+) (%S+) (%x+)') do
        lines[#lines + 1] = {id = id, control = control, lsn = lsn}
    end
    return lines
end

local function undone_count(meta) return tonumber(redis.call('HGET', meta, META_UNDONE_COUNT) or 0) end

local function add_undone(prefix, lsn)
    local meta = prefix .. KEY_META
    local control = redis.call('XREVRANGE', prefix .. KEY_CONTROL, '+', '-', 'COUNT', 1)[1]
    local lines = {}
    for _, line in ipairs(undone_lines(meta)) do
        -- Later lines with a lower LSN include this line.
        if line.lsn < lsn then lines[#lines + 1] = line.id .. ' ' .. line.control .. ' ' .. line.lsn end
    end
    lines[#lines + 1] = last_generated_id(prefix .. KEY_STREAM) .. ' ' .. (control and control[1] or '0-0') .. ' ' .. lsn
    if #lines > UNDONE_LINES then table.remove(lines, 1) end
    redis.call('HSET', meta, META_UNDONE, table.concat(lines, '\n'), META_UNDONE_COUNT, undone_count(meta) + 1)
end

-- Returns the start of the control stream for XREVRANGE. Its entries have no LSN, so the function
-- leaves out all earlier ones: each list is loaded again after the gap.
local function undone_control(meta)
    local lines = undone_lines(meta)
    return #lines > 0 and '(' .. lines[#lines].control or '-'
end

local function is_after(id, other)
    local ms, other_ms = tonumber(id:match('^%d+')), tonumber(other:match('^%d+'))
    if ms ~= other_ms then return ms > other_ms end
    return tonumber(id:match('%d+$')) > tonumber(other:match('%d+$'))
end

-- Returns a function that returns whether a stream entry was added before the last such event, which all clients
-- learn from a gap.
local function precedes_undone(meta)
    local lines = undone_lines(meta)
    return function(id) return #lines > 0 and not is_after(id, lines[#lines].id) end
end

-- Returns a function that returns whether the transaction of a notification was undone.
local function undone_filter(meta)
    local lines = undone_lines(meta)
    return function(route, id)
        if #lines == 0 then return false end
        local lsn = route_bytes(route, FRAME_AT_COMMIT_LSN, FRAME_AT_ORDINAL):gsub('.', function(byte)
            return string.format('%02x', byte:byte())
        end)
        for _, line in ipairs(lines) do
            if lsn >= line.lsn and not is_after(id, line.id) then return true end
        end
        return false
    end
end
