-- large.lua: the index of the large stream entries: their sizes, and what scripts need of them. So no script
-- copies them.

-- All members of KEY_LARGE have the same score. They begin with the padded id, so their order is that
-- of the stream. After it they have: bytes, notification id, r for a retry or -, the field `after` with commas instead of
-- spaces, and the start of the route.
local function large_key(stream) return stream:match('^(.*)' .. KEY_STREAM .. '$') .. KEY_LARGE end
local function large_start(entry) return string.format('%20s-%20s ', entry:match('^(%d+)-(%d+)$')) end

-- Returns the number of bytes of a stream entry.
local function bytes_of(entry)
    local bytes = 0
    for _, text in ipairs(entry[2]) do bytes = bytes + #text end
    return bytes
end
