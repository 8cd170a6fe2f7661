-- latest.lua: returns the newest notifications of a stream, without payloads, for the console's
-- live view.
-- KEYS: stream. ARGV: prefix, '-', or '(' and a stream entry: only later entries are returned.
-- Returns a JSON array, newest first.
local stream, after = KEYS[1], ARGV[2]
-- include: json.lua
-- include: large_backwards.lua

local DATA_MAX, TARGETS_MAX = 65536, 3

local function text_or_null(value) return type(value) == 'string' and text_of(value) or 'null' end

-- Decodes a notification. Returns an empty table if it is too long or invalid.
local function line_of(text)
    if #text > DATA_MAX then return {} end
    local is_valid, line = pcall(cjson.decode, text)
    return is_valid and type(line) == 'table' and line or {}
end

local function table_of(value) return type(value) == 'table' and value or {} end

-- `row` nil: a large entry.
local function row_of(entry, row, large)
    local fields = large or {id = ''}
    for k = 1, row and #row[2] or 0, 2 do fields[row[2][k]] = row[2][k + 1] end
    local line = line_of(fields.data or '')
    local metadata, routing = table_of(line.metadata), table_of(line.routing)
    local audience, retry = table_of(routing.audience), table_of(routing.retry)
    local targets, first = table_of(audience.targets), {}
    for i = 1, math.min(#targets, TARGETS_MAX) do first[i] = text_of(tostring(targets[i])) end
    return table.concat({'{"entry":', text_of(entry), ',"at":', entry:match('^%d+'),
        ',"id":', text_of(fields.id), ',"topic":', text_or_null(metadata.topic),
        ',"operation":', text_or_null(metadata.operation), ',"priority":', text_or_null(metadata.priority),
        ',"audience":', text_or_null(audience.type), ',"targets":', array_of(first),
        ',"target_count":', number_of(audience.recipients or #targets), ',"ack":', tostring(retry.ack_required == true),
        ',"attempt":', number_of(retry.attempts), '}'})
end

-- The size of an entry is known only after it was copied, so one entry is read at a time.
local BYTES_MAX = 1024 * 1024
local rows, bytes, next_entry = {}, 0, backwards(stream, '+', after)
while #rows < STORE_LATEST_ROWS and bytes < BYTES_MAX do
    local entry, row, large = next_entry()
    if not entry then break end
    rows[#rows + 1], bytes = row_of(entry, row, large), bytes + (row and bytes_of(row) or 0)
end
return array_of(rows)
