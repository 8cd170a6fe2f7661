-- unpacked.lua: reads the receipts of a stream entry (receipts.lua), for a script that must know them. Relays do the same
-- (packed_receipts.c).
-- include: json.lua
-- include: time_json.lua

-- Calls `visit` with the notification of each receipt, its template, and the texts for its bytes 1 to 4. Without these, the
-- template is its JSON.
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
