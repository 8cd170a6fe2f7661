-- errors.lua: returns a page of a shard's error log for the console, newest first.
-- KEYS: stream. ARGV: prefix, '+' for the first page; otherwise '(' and an error log entry, after
-- which the page begins.
-- Returns a JSON array. A notification longer than DATA_MAX is returned as null.
-- include: json.lua
local errors, before = ARGV[1] .. KEY_ERRORS, ARGV[2]

local DATA_MAX, USERS_MAX = 8192, 20

-- Returns the number of users of an error log entry, and the first USERS_MAX users.
local function users_of(text)
    local is_valid, users = pcall(cjson.decode, text)
    local first = {}
    if not is_valid or type(users) ~= 'table' then return 0, first end
    for i = 1, math.min(#users, USERS_MAX) do first[i] = text_of(tostring(users[i])) end
    return #users, first
end

local rows = {}
local page = redis.call('XREVRANGE', errors, before, '-', 'COUNT', STORE_ERRORS_ROWS)
for i, entry in ipairs(page) do
    local fields = {data = '', users = '[]', id = '', reason = ''}
    for k = 1, #entry[2], 2 do fields[entry[2][k]] = entry[2][k + 1] end
    local count, users = users_of(fields.users)
    local is_included = fields.data ~= '' and #fields.data <= DATA_MAX
    rows[i] = table.concat({'{"entry":', text_of(entry[1]), ',"at":', entry[1]:match('^%d+'),
        ',"id":', text_of(fields.id), ',"reason":', text_of(fields.reason),
        ',"attempts":', number_of(fields.attempts), ',"user_count":', number_of(count),
        ',"users":', array_of(users), ',"notification":', is_included and fields.data or 'null', '}'})
end
return array_of(rows)
