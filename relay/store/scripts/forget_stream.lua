-- forget_stream.lua: deletes the stream entries that are addressed to a user alone.
-- KEYS: stream. ARGV: prefix, user, the user as a JSON string, entry after which to continue, 1 if the caller has found
-- that the next one, which is large, is addressed to the user alone, 0 if it has found that it is not, 2 if it names the
-- user, '' otherwise.
-- Returns {entry after which the next call continues, '' at the end, number of deleted entries, number of others that name
-- the user, time in ms of the newest of these, expiration in ms of the last of these, '0': none, 1 if one has no end
-- yet, an entry that the caller must read first, or ''}.
local stream, prefix, user, json_name, after = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local call = redis.call
-- include: pending_value.lua
-- include: large_backwards.lua
-- include: recipients.lua

local ENTRIES_MAX, BYTES_MAX, STEP = 200, 256 * 1024, 16
local deleted, named, newest_ms, expires, has_open, wanted, bytes = 0, 0, 0, 0, 0, '', 0
local read, is_deleting, oldest = 0, false, nil

-- Sessions compare the oldest entry to detect trimming (range.lua), and these entries were not trimmed: META_FORGOTTEN has the
-- entry that was the oldest, and the one that is the oldest since. A stream without entries would lose that.
local function keep_oldest(route, id)
    local now_oldest = oldest_entry(stream)
    if not now_oldest then
        now_oldest = call('XADD', stream, '*', 'id', id, 'route', route_to_nobody(route), 'data', '{}', 'retry_users', '')
    end
    if now_oldest == oldest then return end
    local was, is = (call('HGET', prefix .. KEY_META, META_FORGOTTEN) or ''):match('^(%S+) (%S+)$')
    call('HSET', prefix .. KEY_META, META_FORGOTTEN, (is == oldest and was or oldest) .. ' ' .. now_oldest)
end

local last_route, last_id
local function delete_entry(entry, fields, large)
    if not is_deleting then oldest, is_deleting = oldest_entry(stream), true end
    last_route, last_id = fields.route or last_route, fields.id
    call('XDEL', stream, entry)
    if large then call('ZREM', large_key(stream), large.member) end
    deleted = deleted + 1
    if fields.retry_users or call('HEXISTS', prefix .. KEY_PENDING, fields.id) == 1 then return end
    call('UNLINK', prefix .. KEY_TRACE .. fields.id, prefix .. KEY_ACKED .. fields.id)
end

local function count_named(entry, fields, is_pending)
    named = named + 1
    newest_ms = math.max(newest_ms, tonumber(entry:match('^%d+')))
    local ends = fields.route and expires_ms(fields.route) or 0
    if is_pending then
        expires = math.max(expires, ends)
        if ends == 0 then has_open = 1 end
    end
end

-- `verdict`: of the caller, or nil.
local function visit(entry, fields, large, verdict)
    local pending = call('HGET', prefix .. KEY_PENDING, fields.id or '')
    local is_pending = pending and pending_entry(pending) == entry
    if (verdict == '1' or not verdict and is_alone(fields, user)) and not is_pending then
        delete_entry(entry, fields, large)
    elseif verdict == '1' or verdict == '2' or not verdict and names_user(fields, user, json_name) then
        count_named(entry, fields, is_pending)
    end
    after, read = entry, read + 1
end

local function fields_of_row(row)
    local fields = {}
    for i = 1, #row[2], 2 do fields[row[2][i]] = row[2][i + 1] end
    return fields
end

local at_end, verdict = false, ARGV[5] ~= '' and ARGV[5] or nil
local large = next_large(stream, after)
while not at_end and wanted == '' and read < ENTRIES_MAX and bytes < BYTES_MAX do
    local rows = call('XRANGE', stream, '(' .. after, large and '(' .. large.entry or '+', 'COUNT', STEP)
    for _, row in ipairs(rows) do
        bytes = bytes + bytes_of(row)
        visit(row[1], fields_of_row(row))
    end
    if #rows == 0 and not large then
        at_end = true
    elseif #rows == 0 then
        if large.bytes > STORE_COPIED_BYTES_MAX and has_large(stream, large) then
            if verdict then
                visit(large.entry, {id = large.id, retry_users = large.is_retry or nil}, large, verdict)
                verdict = nil
            else
                wanted = large.entry
            end
        else
            local row = call('XRANGE', stream, large.entry, large.entry)[1]
            if row then
                bytes = bytes + bytes_of(row)
                visit(row[1], fields_of_row(row), large)
            end
        end
        if wanted == '' then
            after = large.entry
            large = next_large(stream, after)
        end
    end
end
if is_deleting and last_route then keep_oldest(last_route, last_id) end
local function text(number) return string.format('%.0f', number) end
return {at_end and '' or after, deleted, named, text(newest_ms), text(expires), has_open, wanted}
