-- large.lua: the index of the large stream entries, so that scripts know their sizes without copying
-- them.

-- All members of KEY_LARGE have the same score. They begin with the padded id, so their order is that
-- of the stream.
local function large_key(stream) return stream:match('^(.*)' .. KEY_STREAM .. '$') .. KEY_LARGE end
local function large_start(entry) return string.format('%20s-%20s ', entry:match('^(%d+)-(%d+)$')) end

-- Adds an entry with this number of bytes if it is large.
local function record_large(stream, entry, bytes)
    if bytes >= STORE_LARGE_BYTES then redis.call('ZADD', large_key(stream), 0, large_start(entry) .. bytes) end
end
