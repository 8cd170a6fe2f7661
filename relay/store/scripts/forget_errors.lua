-- forget_errors.lua: removes a user from the error log. Entries of the user alone are removed; others move to its end,
-- without the user, also among the targets. Only a payload may still name the user.
-- KEYS: stream. ARGV: prefix, user, the user as a JSON string, entry after which to continue, the last entry to visit, '+' at
-- the start.
-- Returns {entry after which the next call continues, '' at the end, the last entry to visit, number of entries that were
-- removed or changed, number of entries whose notification still names the user, time in ms of the newest of these}.
local stream, prefix, user, json_name, after = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local call = redis.call
-- include: notifications.lua
-- include: error_log.lua
-- include: recipients.lua

local ENTRIES_MAX, BYTES_MAX = 100, 256 * 1024
local changed_entries, named, newest_ms, bytes, read = 0, 0, 0, 0, 0
local last = ARGV[5]
if last == '+' then
    local newest = call('XREVRANGE', errors, '+', '-', 'COUNT', 1)[1]
    last = newest and newest[1] or '0-0'
end

-- Returns the users without this one, and whether the user was among them.
local function without_user(json)
    local is_array, users = pcall(cjson.decode, json)
    local others = {}
    for _, name in ipairs(is_array and type(users) == 'table' and users or {}) do
        if name ~= user then others[#others + 1] = name end
    end
    return others, is_array and #others < #users
end

-- The bytes that are charged do not change.
local function move_entry(entry, fields, users, owner)
    local index, key = index_key(owner), parts_key(fields.id)
    local indexed = call('XRANGE', index, entry, entry)[1]
    local moved = call('XADD', errors, error_id(), 'id', fields.id, 'reason', fields.reason, 'attempts', fields.attempts,
        'users', cjson.encode(users), 'data', fields.data, 'route', fields.route)
    if indexed then redis.pcall('XADD', index, moved, unpack(indexed[2])) end
    if call('HGET', key, 'holder') == entry then
        call('HSET', key, 'holder', moved)
    elseif call('HDEL', key, entry) == 1 then
        call('HSET', key, moved, '')
    end
    call('XDEL', errors, entry)
    call('XDEL', index, entry)
    return moved
end

-- Changes the data of an entry that was removed before others of its notification. Returns false for large data, and
-- without data.
local function clean_parts(id)
    local key = parts_key(id)
    if tonumber(call('HGET', key, 'bytes') or STORE_COPIED_BYTES_MAX + 1) > STORE_COPIED_BYTES_MAX then return false end
    local parts = call('HMGET', key, 'data', 'route')
    if parts[1] and parts[2] then
        call('HMSET', key, 'data', data_without(parts[1], json_name), 'route', route_without(parts[2], user))
    end
    return true
end

local function visit(row)
    local fields, entry = fields_of(row), row[1]
    local users, has_user = without_user(fields.users or '[]')
    local owner = owner_of(fields)
    if (has_user and #users == 0) or is_alone(fields, user) then
        remove_error(fields.id, owner, entry)
        clean_parts(fields.id)
        changed_entries = changed_entries + 1
        return
    end
    local data, route = data_without(fields.data or '', json_name), route_without(fields.route or '', user)
    if has_user or data ~= fields.data or route ~= fields.route then
        fields.data, fields.route = data, route
        entry = move_entry(entry, fields, users, owner)
        changed_entries = changed_entries + 1
    end
    -- Large data are not read, and may name the user.
    local is_large = not clean_parts(fields.id) and has_user and fields.data == ''
    if is_large or names_user(fields, user, json_name) then
        named, newest_ms = named + 1, math.max(newest_ms, tonumber(entry:match('^%d+')))
    end
end

local at_end = false
while read < ENTRIES_MAX and bytes < BYTES_MAX do
    local row = call('XRANGE', errors, '(' .. after, last, 'COUNT', 1)[1]
    if not row then
        at_end = true
        break
    end
    for i = 1, #row[2] do bytes = bytes + #row[2][i] end
    after, read = row[1], read + 1
    visit(row)
end
save_notifications()
return {at_end and '' or after, last, changed_entries, named, integer_text(newest_ms)}
