-- earlier.lua: returns the stream entries before an id, newest first, as far as the first large one.
-- KEYS: stream. ARGV: prefix, id, maximum number.
-- Returns {entries, 1 if earlier ones may follow}. Without entries these are large.
local stream = KEYS[1]
-- include: large_backwards.lua

local PAGE_BYTES = 256 * 1024
local found, bytes, next_entry = {}, 0, backwards(stream, '(' .. ARGV[2], '-')
while #found < tonumber(ARGV[3]) and bytes < PAGE_BYTES do
    local entry, row = next_entry()
    if not row then return {found, entry and 1 or 0} end
    found[#found + 1], bytes = row, bytes + bytes_of(row)
end
return {found, 1}
