-- start_position.lua: finds the stream entry after which all notifications beyond a position follow.
-- KEYS: stream. ARGV: position, the entry at which to start searching backwards.
-- Returns the newest notification's entry that is not beyond the position, '' if none is near.
-- include: reverse_scan.lua

local function is_at_or_before(route)
    local position = route_bytes(route, FRAME_AT_COMMIT_LSN, FRAME_COMMON_SIZE)
    return position:gsub('.', function(byte) return string.format('%02x', byte:byte()) end) <= ARGV[1]
end
return newest_notification(KEYS[1], ARGV[2], 64, is_at_or_before) or ''
