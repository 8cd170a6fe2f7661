-- topic.lua: reads the topic of a notification from the start of its JSON document. Requires `call`
-- and `stream`.

local HEAD_MAX = 4096

-- Matches a JSON string or null. The metadata is first and contains this key once.
local TOPIC = '^' .. ENVELOPE_ID_TEXT .. '.-' .. ENVELOPE_TOPIC_TEXT .. '("[^"\\]*")'
local function topic_of(data) return (data or ''):sub(1, HEAD_MAX):match(TOPIC) or 'null' end

local function fields_at(entry_id)
    local entry = call('XRANGE', stream, entry_id, entry_id)[1]
    local fields = {}
    for i = 1, entry and #entry[2] or 0, 2 do fields[entry[2][i]] = entry[2][i + 1] end
    return fields
end
