-- receipts_page.lua: returns a page of a shard's receipts, oldest first.
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

-- Many receipts have the same template.
local has_emitter = {}
local function is_wanted(id, template, places)
    if notification ~= '' and id ~= notification then return false end
    if emitter == '' then return true end
    if has_emitter[template] == nil then
        local text = places and template:gsub('[\1-\4]', places) or template
        has_emitter[template] = cjson.decode(text).emitter == emitter
    end
    return has_emitter[template]
end

local function add(row)
    local number, skip = 0, row[1] == entry and tonumber(skipped) or 0
    visit_receipts(row[2], function(id, template, places)
        number = number + 1
        if number <= skip or count == most then return end
        page[1] = row[1] .. '.' .. number
        if not is_wanted(id, template, places) then return end
        page[#page + 1], page[#page + 2] = page[1], places and template:gsub('[\1-\4]', places) or template
        count = count + 1
    end)
    read = read + number
    if count < most then page[1] = row[1] end
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
