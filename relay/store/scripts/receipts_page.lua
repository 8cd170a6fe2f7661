-- receipts_page.lua: returns a page of a shard's receipts, oldest first.
-- KEYS: stream. ARGV: prefix, where the page begins, maximum number of receipts, their emitter ('': any), their
-- notification ('': any).
-- A page begins after a stream entry, or after a number of its receipts: `1795230000000-0.3`.
-- Returns {where the next page begins, then where it would begin after each receipt, and its JSON}. A page may lack
-- receipts that follow.
local prefix, most, emitter, notification = ARGV[1], tonumber(ARGV[3]), ARGV[4], ARGV[5]
-- include: json.lua

-- Returns a time in ms, or null, in the form of metadata.timestamp, as JSON.
local second_texts, time_texts = {}, {null = 'null'}
local function time_json(ms_text)
    local text = time_texts[ms_text]
    if text then return text end
    local ms = tonumber(ms_text)
    local second = math.floor(ms / 1000)
    if not second_texts[second] then
        -- The years of this calendar begin in March, so that the leap day is the last one.
        local day = math.floor(second / 86400) + 719468
        local era = math.floor(day / 146097)
        local of_era = day - era * 146097
        local year = math.floor((of_era - math.floor(of_era / 1460) + math.floor(of_era / 36524) -
            math.floor(of_era / 146096)) / 365)
        local of_year = of_era - 365 * year - math.floor(year / 4) + math.floor(year / 100)
        local month = math.floor((5 * of_year + 2) / 153)
        local of_month = of_year - math.floor((153 * month + 2) / 5) + 1
        second_texts[second] = string.format('"%04d-%02d-%02dT%02d:%02d:%02d.', year + era * 400 + (month < 10 and 0 or 1),
            month < 10 and month + 3 or month - 9, of_month, math.floor(second / 3600) % 24, math.floor(second / 60) % 60,
            second % 60)
    end
    text = second_texts[second] .. string.format('%03d000Z"', ms % 1000)
    time_texts[ms_text] = text
    return text
end

-- Calls `visit` with the notification of each receipt, its template, and the texts for its bytes 1 to 4. Without these, the
-- template is its JSON. Relays read the same in packed_receipts.c.
local function visit_receipts(fields, visit)
    if fields[1] == 'id' then return visit(fields[2]:sub(1, FRAME_UUID_TEXT), fields[4]) end
    if fields[1] ~= 'n' then return end -- of a newer release
    local template, id, places = nil, nil, {['\3'] = 'null', ['\4'] = 'null'}
    for i = 3, #fields, 2 do
        local name, value = fields[i], fields[i + 1]
        if name == 't' then
            template = value
        elseif name == 'd' then
            places['\3'] = time_json(value)
        elseif name == 'a' then
            places['\4'] = time_json(value)
        else
            id = name == '' and id or name
            places['\1'], places['\2'] = id, text_of(value):sub(2, -2)
            for one in template:gmatch('[^\5]+') do visit(id, one, places) end
        end
    end
end

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
