-- error_log.lua: the error log, and what each table owner has in it. Requires notifications.lua.
-- include: keys.lua
-- include: route.lua
--
-- A notification may end for its users at different times, with one entry each time. Only the first
-- entry contains the fields `data` and `route`, unless they are large. The hash KEY_ERROR_PARTS has these fields:
--   owner      of the table
--   attempts   of the first entry
--   holder     the entry with the data
--   data, route, bytes  instead of `holder`, and what they are charged: large data, which no script copies from
--              an entry, or those of an entry that was removed before the others
--   an entry   each further entry, which has no data
--
-- An entry is charged its bytes, at least ENTRY_BYTES, to the owner in the header. Over ERRORS_BYTES,
-- the oldest entries of the owner with the most bytes are trimmed. So an owner with less than an equal
-- share loses nothing. Notifications without a limited owner share the account '0'. KEY_ERROR_OWNERS
-- is a sorted set of owners by their bytes, and of ALL. KEY_ERROR_INDEX is a stream for each owner: its
-- entries under the same ids, with the notification, the charged bytes, and `receipts` if it has them.

local errors, owners = prefix .. KEY_ERRORS, prefix .. KEY_ERROR_OWNERS
local shard = shard_number(prefix)
local ERRORS_BYTES = STORE_ERRORS_BYTES_MAX
local ENTRY_BYTES = math.floor(ERRORS_BYTES / STORE_ERRORS_MAX)
local ALL = 'all' -- sorts after the owners, which are numbers

-- The error logs of all shards are listed as one log, so an id contains the shard number to be
-- unique.
local error_ms, error_seq
local function error_id()
    if not shard then return '*' end
    if not error_ms then
        error_ms, error_seq = now_ms(), -1
        local info = redis.pcall('XINFO', 'STREAM', errors)
        for i = 1, #info, 2 do
            if info[i] == 'last-generated-id' then
                local ms, seq = info[i + 1]:match('^(%d+)-(%d+)$')
                if tonumber(ms) >= error_ms then error_ms, error_seq = tonumber(ms), tonumber(seq) end
            end
        end
    end
    error_seq = (math.floor(error_seq / STORE_SHARDS_MAX) + 1) * STORE_SHARDS_MAX + tonumber(shard)
    return integer_text(error_ms) .. '-' .. integer_text(error_seq)
end

local function index_key(owner) return prefix .. KEY_ERROR_INDEX .. owner end

local function charge(owner, bytes)
    for _, name in ipairs({owner, ALL}) do
        if tonumber(call('ZINCRBY', owners, bytes, name)) <= 0 then call('ZREM', owners, name) end
    end
end

-- Returns the owner in the header, as text.
local function error_owner(route)
    if #route < FRAME_NOTIFICATION_HEAD_SIZE then return '0' end
    return integer_text(table_owner(route))
end

local function parts_key(id) return prefix .. KEY_ERROR_PARTS .. id end

-- Adds an entry. `users` is a JSON array. `data` nil: data and route were prepared. `receipts`: as in the pending value,
-- or nil. trim_errors limits the log. Returns the entry, and true if the data are large: they are recorded already.
local function log_entry(id, owner, reason, attempts, users, data, route, receipts)
    local size = data and #data + #route or prepared.bytes
    local is_large = not data or size > STORE_COPIED_BYTES_MAX
    local entry = call('XADD', errors, error_id(), 'id', id, 'reason', reason,
        'attempts', attempts, 'users', users, 'data', is_large and '' or data, 'route', is_large and '' or route)
    local bytes = math.max(ENTRY_BYTES, #users + (is_large and 0 or size))
    -- After somebody has deleted the log, its ids may be older than those of the index.
    local indexed
    if receipts then
        indexed = redis.pcall('XADD', index_key(owner), entry, 'id', id, 'bytes', bytes, 'receipts', receipts)
    else
        indexed = redis.pcall('XADD', index_key(owner), entry, 'id', id, 'bytes', bytes)
    end
    if type(indexed) == 'string' then charge(owner, bytes) end
    if is_large then
        if data then call('HMSET', parts_key(id), 'data', data, 'route', route) else prepared.keep_parts() end
        call('HMSET', parts_key(id), 'owner', owner, 'attempts', attempts, 'bytes', size, entry, '')
        charge(owner, size)
    end
    return entry, is_large
end

-- Returns attempts and owner if the error log has the data of the notification; otherwise nil.
local function logged_before(id)
    local parts = call('HMGET', parts_key(id), 'holder', 'bytes', 'attempts', 'owner')
    if parts[1] or tonumber(parts[2] or 0) > STORE_COPIED_BYTES_MAX then return tonumber(parts[3]), parts[4] end
end

-- Records a new entry of the notification. `has_data`: it contains the data.
local function add_part(id, owner, entry, attempts, has_data)
    local key = parts_key(id)
    if not has_data then
        call('HSET', key, entry, '')
        return
    end
    local moved = call('HGET', key, 'bytes')
    if moved then
        charge(owner, -moved)
        call('HDEL', key, 'data', 'route', 'bytes')
    end
    call('HMSET', key, 'holder', entry, 'attempts', attempts, 'owner', owner)
end

-- True if the hash has no entry without data. There are three fields with a holder, five without it.
local function is_only_part(key, holder) return call('HLEN', key) == (holder and 3 or 5) end

-- Most notifications end for all users in one call, with a single entry.
local function forget_single_part(id)
    if is_only_part(parts_key(id), true) then call('UNLINK', parts_key(id)) end
end

local function fields_of(row)
    local fields = {}
    for i = 1, #row[2], 2 do fields[row[2][i]] = row[2][i + 1] end
    return fields
end

-- Returns data and route of an entry without data, unless they are large.
local function data_of_part(id)
    local parts = call('HMGET', parts_key(id), 'holder', 'bytes')
    if parts[2] then
        if tonumber(parts[2]) > STORE_COPIED_BYTES_MAX then return '', '' end
        parts = call('HMGET', parts_key(id), 'data', 'route')
        return parts[1] or '', parts[2] or ''
    end
    local row = parts[1] and call('XRANGE', errors, parts[1], parts[1])[1]
    if not row then return '', '' end
    local fields = fields_of(row)
    return fields.data or '', fields.route or ''
end

-- Returns the owner of an entry.
local function owner_of(fields)
    if fields.route ~= '' then return error_owner(fields.route or '') end
    return call('HGET', parts_key(fields.id), 'owner') or '0'
end

-- Removes an entry. If further entries of the notification have no data, its data is kept for them,
-- and remains charged. Returns the number of removed entries, and the bytes that were moved. A full store
-- accepts other writes only after XDEL.
local function remove_error(id, owner, entry)
    local key, index = parts_key(id), index_key(owner)
    local indexed = call('XRANGE', index, entry, entry)[1]
    local bytes, moved = indexed and tonumber(indexed[2][4]) or 0, 0
    local holder = call('HGET', key, 'holder')
    local row = holder == entry and not is_only_part(key, true) and call('XRANGE', errors, entry, entry)[1]
    local removed = call('XDEL', errors, entry)
    if row then
        local fields = fields_of(row)
        call('HDEL', key, 'holder')
        call('HMSET', key, 'data', fields.data or '', 'route', fields.route or '', 'bytes', bytes)
        bytes, moved = 0, bytes
    elseif holder == entry then
        call('UNLINK', key)
    elseif call('HDEL', key, entry) == 1 and not holder and is_only_part(key, false) then
        bytes = bytes + (call('HGET', key, 'bytes') or 0)
        call('UNLINK', key)
    end
    -- Without entries, the notification cannot be redriven.
    if indexed and indexed[2][5] and call('EXISTS', key) == 0 and not notification_of(id) then
        call('UNLINK', prefix .. KEY_RECEIPT_STATE .. id)
    end
    call('XDEL', index, entry)
    if call('XLEN', index) == 0 then call('DEL', index) end
    charge(owner, -bytes)
    return removed, moved
end

-- Trims the log to ERRORS_BYTES, TRIM_MAX entries and about TRIM_BYTES at a time. The numbers of each
-- owner are kept until a feed reports them (count_pending.lua). Returns the number of removed entries, and
-- whether the log is still too large.
local TRIM_MAX, TRIM_BYTES = 500, 1024 * 1024
local function trim_errors()
    local trimmed, bytes = 0, 0
    for _ = 1, TRIM_MAX do
        local most = call('ZREVRANGE', owners, 0, 1, 'WITHSCORES')
        if not most[3] or tonumber(most[2]) <= ERRORS_BYTES then return trimmed, false end
        if bytes >= TRIM_BYTES then break end
        local owner = most[3]
        local oldest = call('XRANGE', index_key(owner), '-', '+', 'COUNT', 1)[1]
        if oldest then
            local removed, moved = remove_error(oldest[2][2], owner, oldest[1])
            trimmed, bytes = trimmed + removed, bytes + moved
            call('HINCRBY', prefix .. KEY_DENIED, 'e' .. owner, removed)
        else
            charge(owner, -most[4]) -- somebody has deleted the index
        end
    end
    return trimmed, true
end
