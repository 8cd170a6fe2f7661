-- start_position.lua: finds the newest stream entry that is not beyond a position.
-- KEYS: stream. ARGV: position, the stream entry from which to search backwards.
-- Returns that stream entry, or '' if it is not nearby.
-- include: reverse_scan.lua

local function is_at_or_before(route)
    local position = route_bytes(route, FRAME_AT_COMMIT_LSN, FRAME_COMMON_SIZE)
    return position:gsub('.', function(byte) return string.format('%02x', byte:byte()) end) <= ARGV[1]
end
-- There is no size limit, because the relay must read all shards in commit order from the found
-- stream entry.
return newest_notification(KEYS[1], ARGV[2], 64, is_at_or_before, math.huge) or ''
