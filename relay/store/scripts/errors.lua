-- errors.lua: returns a page of a shard's error log for the console, newest first.
-- KEYS: stream. ARGV: prefix, '+' for the first page; otherwise '(' and an error log entry, after
-- which the page begins.
-- Returns a JSON array. A notification longer than DATA_MAX is returned as null.
-- include: json.lua
local stream, prefix, before = KEYS[1], ARGV[1], ARGV[2]
local call = redis.call
-- include: notifications.lua
-- include: error_log.lua

-- The size of an entry is known only after it was copied, so one entry is read at a time.
local DATA_MAX, USERS_MAX, BYTES_MAX = 8192, 20, 4 * 1024 * 1024

-- Returns the number of users of an error log entry, and the first USERS_MAX users.
local function users_of(text)
    local is_valid, users = pcall(cjson.decode, text)
    local first = {}
    if not is_valid or type(users) ~= 'table' then return 0, first end
    for i = 1, math.min(#users, USERS_MAX) do first[i] = text_of(tostring(users[i])) end
    return #users, first
end

local rows, bytes = {}, 0
for i = 1, STORE_ERRORS_ROWS do
    local entry = call('XREVRANGE', errors, before, '-', 'COUNT', 1)[1]
    if not entry or bytes >= BYTES_MAX then break end
    before = '(' .. entry[1]
    local fields = fields_of(entry)
    fields.data, fields.users, fields.id, fields.reason = fields.data or '', fields.users or '[]', fields.id or '', fields.reason or ''
    bytes = bytes + #fields.data + #fields.users
    if fields.data == '' and bytes < BYTES_MAX then
        fields.data = data_of_part(fields.id)
        bytes = bytes + #fields.data
    end
    local count, users = users_of(fields.users)
    local is_included = fields.data ~= '' and #fields.data <= DATA_MAX
    rows[i] = table.concat({'{"entry":', text_of(entry[1]), ',"at":', entry[1]:match('^%d+'),
        ',"id":', text_of(fields.id), ',"reason":', text_of(fields.reason),
        ',"attempts":', number_of(fields.attempts), ',"user_count":', number_of(count),
        ',"users":', array_of(users), ',"notification":', is_included and fields.data or 'null', '}'})
end
return array_of(rows)
