-- start_position.lua: finds where to begin a stream, so that all notes beyond a position come.
-- KEYS: stream. ARGV: the position, the entry from which to look back.
-- Returns the newest note's entry that is not beyond, '' where none is found near by.
-- include: scan_back.lua

local function is_not_beyond(route)
    local position = route_bytes(route, FRAME_AT_COMMIT_LSN, FRAME_COMMON_SIZE)
    return position:gsub('.', function(byte) return string.format('%02x', byte:byte()) end) <= ARGV[1]
end
return newest_note(KEYS[1], ARGV[2], 64, is_not_beyond) or ''
