-- receipts.lua: returns a page of a shard's receipts, oldest first.
-- KEYS: stream. ARGV: prefix, the receipt's stream entry after which the page begins, maximum number of receipts,
-- their emitter ('': any), their notification ('': any).
-- Returns {the last entry that was read, then the entry and the JSON of each receipt}. A page may lack receipts that
-- follow: the next page begins after the last entry.
local prefix, most, emitter, notification = ARGV[1], tonumber(ARGV[3]), ARGV[4], ARGV[5]

local ROWS, READ_MAX = 200, 5000
local page, count, read = {ARGV[2]}, 0, 0
repeat
    local rows = redis.call('XRANGE', prefix .. KEY_RECEIPTS, '(' .. page[1], '+', 'COUNT', ROWS)
    for _, row in ipairs(rows) do
        local id, data = row[2][2], row[2][4]
        page[1] = row[1]
        if id:sub(1, #notification) == notification and (emitter == '' or cjson.decode(data).emitter == emitter) then
            page[#page + 1], page[#page + 2] = row[1], data
            count = count + 1
            if count == most then return page end
        end
    end
    read = read + #rows
until #rows < ROWS or read >= READ_MAX
return page
