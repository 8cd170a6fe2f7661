-- error_log.lua: entries of the error log that belong to one notification. Requires `call`, `prefix`
-- and `errors`.
--
-- A notification may end for its users at different times, with one entry each time. Only the first
-- entry contains the fields `data` and `route`. The hash KEY_ERROR_PARTS has these fields:
--   holder     the entry with the data
--   data, route  instead of `holder`: moved here when that entry was removed before the others
--   attempts   of the first entry
--   an entry   each further entry, which has no data

local function parts_key(id) return prefix .. KEY_ERROR_PARTS .. id end

local function is_trimmed(entry)
    local from = call('HGET', prefix .. KEY_META, 'errors_from')
    local ms, seq = entry:match('^(%d+)-(%d+)$')
    local from_ms, from_seq = (from or '0-0'):match('^(%d+)-(%d+)$')
    ms, from_ms = tonumber(ms), tonumber(from_ms)
    return ms < from_ms or (ms == from_ms and tonumber(seq) < tonumber(from_seq))
end

-- Returns the attempts of the holder if the error log still has it; otherwise nil.
local function logged_attempts(id)
    local parts = call('HMGET', parts_key(id), 'holder', 'attempts')
    return parts[1] and not is_trimmed(parts[1]) and tonumber(parts[2]) or nil
end

-- Records a new entry of the notification. `has_data`: it contains the data.
local function add_part(id, entry, attempts, has_data)
    if has_data then
        call('HMSET', parts_key(id), 'holder', entry, 'attempts', attempts)
        call('HDEL', parts_key(id), 'data', 'route')
    else
        call('HSET', parts_key(id), entry, '')
    end
    call('ZADD', prefix .. KEY_ERROR_SPLIT, entry:match('^%d+'), id)
end

local function fields_of(row)
    local fields = {}
    for i = 1, #row[2], 2 do fields[row[2][i]] = row[2][i + 1] end
    return fields
end

-- Returns data and route of an entry without data; '' if they were trimmed.
local function data_of_part(id)
    local parts = call('HMGET', parts_key(id), 'holder', 'data', 'route')
    if parts[3] then return parts[2], parts[3] end
    local row = parts[1] and call('XRANGE', errors, parts[1], parts[1])[1]
    if not row then return '', '' end
    local fields = fields_of(row)
    return fields.data or '', fields.route or ''
end

-- Removes an entry. If further entries of the notification have no data, its data is kept for them.
-- Returns the number of removed entries.
local function remove_error(id, entry)
    local key = parts_key(id)
    local holder, count = call('HGET', key, 'holder'), call('HLEN', key)
    if holder == entry and count > 2 then
        local row = call('XRANGE', errors, entry, entry)[1]
        local fields = row and fields_of(row) or {}
        call('HDEL', key, 'holder')
        call('HMSET', key, 'data', fields.data or '', 'route', fields.route or '')
    elseif holder == entry then
        call('UNLINK', key)
        call('ZREM', prefix .. KEY_ERROR_SPLIT, id)
    elseif call('HDEL', key, entry) == 1 and not holder and call('HLEN', key) == 3 then
        call('UNLINK', key) -- only data, route and attempts were left
        call('ZREM', prefix .. KEY_ERROR_SPLIT, id)
    end
    return call('XDEL', errors, entry)
end

-- Limits the log to the newest ERRORS_MAX entries, and, if `with_bytes`, to about ERRORS_BYTES_MAX.
-- Returns the number of removed entries.
local ERRORS_MAX, ERRORS_BYTES_MAX, SPLIT_MAX = STORE_ERRORS_MAX, STORE_ERRORS_BYTES_MAX, 1000
local function trim_errors(with_bytes)
    local count, keep = call('XLEN', errors), ERRORS_MAX
    if with_bytes and count > 0 then
        local bytes = redis.pcall('MEMORY', 'USAGE', errors, 'SAMPLES', 0)
        if type(bytes) == 'number' and bytes > ERRORS_BYTES_MAX then
            keep = math.min(keep, math.floor(count * ERRORS_BYTES_MAX / bytes))
        end
    end
    if count <= keep then return 0 end
    local trimmed = call('XTRIM', errors, 'MAXLEN', '~', keep)
    local oldest = trimmed > 0 and call('XRANGE', errors, '-', '+', 'COUNT', 1)[1]
    if oldest then
        call('HSET', prefix .. KEY_META, 'errors_from', oldest[1])
        local split = prefix .. KEY_ERROR_SPLIT
        for _, id in ipairs(call('ZRANGEBYSCORE', split, '-inf', '(' .. oldest[1]:match('^%d+'), 'LIMIT', 0, SPLIT_MAX)) do
            call('UNLINK', parts_key(id))
            call('ZREM', split, id)
        end
    end
    return trimmed
end
