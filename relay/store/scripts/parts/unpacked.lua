-- unpacked.lua: reads the receipts of a stream entry (receipts.lua), for scripts that must know them. Relays do the same
-- (packed_receipts.c).
-- include: json.lua
-- include: time_json.lua

-- Returns the notification and the JSON of each receipt, in a flat list.
local function receipts_in(fields)
    if fields[1] == 'id' then return {fields[2]:sub(1, FRAME_UUID_TEXT), fields[4]} end
    if fields[1] ~= 'n' then return {} end -- of a newer release
    local found, template, id, places = {}, nil, nil, {['\3'] = 'null', ['\4'] = 'null'}
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
            for one in template:gmatch('[^\5]+') do
                found[#found + 1], found[#found + 2] = id, (one:gsub('[\1-\4]', places))
            end
        end
    end
    return found
end
