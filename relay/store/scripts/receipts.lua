-- receipts.lua: returns a page of a shard's receipts, oldest first.
-- KEYS: stream. ARGV: prefix, where the page begins, maximum number of receipts, their emitter ('': any), their
-- notification ('': any).
-- A page begins after a stream entry, or after a number of its receipts: `1795230000000-0.3`.
-- Returns {where the next page begins, then where it would begin after each receipt, and its JSON}. A page may lack
-- receipts that follow.
local prefix, most, emitter, notification = ARGV[1], tonumber(ARGV[3]), ARGV[4], ARGV[5]
-- include: unpacked.lua

local ROWS, READ_MAX = 50, 5000
local page, count, read = {ARGV[2]}, 0, 0
local entry, skipped = ARGV[2]:match('^([^.]+)%.?(%d*)$')

local function add(row)
    local found = receipts_in(row[2])
    local last = #found / 2
    for i = row[1] == entry and skipped + 1 or 1, last do
        local id, data = found[2 * i - 1], found[2 * i]
        page[1] = i == last and row[1] or row[1] .. '.' .. i
        if (notification == '' or id == notification) and (emitter == '' or cjson.decode(data).emitter == emitter) then
            page[#page + 1], page[#page + 2] = page[1], data
            count = count + 1
            if count == most then return end
        end
    end
    page[1], read = row[1], read + last
end

local from = skipped == '' and '(' .. entry or entry
repeat
    local rows = redis.call('XRANGE', prefix .. KEY_RECEIPTS, from, '+', 'COUNT', ROWS)
    for _, row in ipairs(rows) do
        add(row)
        if count == most then return page end
        from = '(' .. row[1]
    end
until #rows < ROWS or read >= READ_MAX
return page
