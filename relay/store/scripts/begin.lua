-- begin.lua: finds where to begin a stream, so that all notes beyond a position come.
-- KEYS: stream. ARGV: the position, the entry from which to look back.
-- Returns the newest note's entry that is not beyond, '' where none is found near by.
local STEP, STEPS, NO_COMMIT = 16, 64, string.rep('\0', 8)

local function position_of(entry)
    local field = {}
    for i = 1, #entry[2], 2 do field[entry[2][i]] = entry[2][i + 1] end
    local bytes = field.route and not field.only and field.route:sub(9, 24) or ''
    if #bytes < 16 or bytes:sub(1, 8) == NO_COMMIT then return nil end
    return (bytes:gsub('.', function(byte) return string.format('%02x', byte:byte()) end))
end

local last = ARGV[2]
for _ = 1, STEPS do
    local page = redis.call('XREVRANGE', KEYS[1], last, '-', 'COUNT', STEP)
    for _, entry in ipairs(page) do
        local position = position_of(entry)
        if position and position <= ARGV[1] then return entry[1] end
    end
    if #page < STEP then return '' end
    last = page[#page][1]
end
return ''
