-- topic.lua: reads the topic of a notification from the start of its JSON document, or of a large entry from the index.
-- Requires `call`, `stream` and json.lua.
-- include: large_entries.lua

local HEAD_MAX = 4096

-- Matches a JSON string or null. The metadata is first and contains this key once.
local TOPIC = '^' .. ENVELOPE_ID_TEXT .. '.-' .. ENVELOPE_TOPIC_TEXT .. '("[^"\\]*")'
local function topic_of(fields)
    if fields.data then return fields.data:sub(1, HEAD_MAX):match(TOPIC) or 'null' end
    local from, to = topic_at(fields.route or '')
    return from and text_of(route_bytes(fields.route, from, to)) or 'null'
end

-- Returns the fields of an entry, of a large one without the data.
local function fields_at(entry_id)
    local large = large_at(stream, entry_id)
    if large then return large end
    local entry = call('XRANGE', stream, entry_id, entry_id)[1]
    local fields = {}
    for i = 1, entry and #entry[2] or 0, 2 do fields[entry[2][i]] = entry[2][i + 1] end
    return fields
end
