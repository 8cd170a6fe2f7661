-- stream_entry.lua: stream entries of pending notifications, and their retries. Requires
-- delivery.lua.
-- include: route.lua
-- include: large.lua

-- Scores in pending lists distinguish 1024 stream entries per millisecond. After the clock was set back, all
-- new entries have the same millisecond. Further entries then move to the next millisecond, so that
-- scores remain unique.
local SEQ_MAX = 1000
local function add_entry(...)
    local entry = call('XADD', stream, '*', ...)
    if #entry <= 16 then return entry end -- 13 digits, a dash, at most 2 digits
    local ms, seq = entry:match('^(%d+)-(%d+)$')
    if tonumber(seq) < SEQ_MAX then return entry end
    call('XDEL', stream, entry)
    call('XSETID', stream, integer_text(tonumber(ms) + 1) .. '-0')
    return call('XADD', stream, '*', ...)
end

-- Returns a stream entry as {entry =, id =, data =, route =, open_ended =}, or nil if it was
-- deleted. This copies the entry, which may have megabytes.
local function read_entry_at(entry)
    local row = call('XRANGE', stream, entry, entry)[1]
    if not row then return nil end
    local found = {entry = entry}
    for i = 1, #row[2], 2 do found[row[2][i]] = row[2][i + 1] end
    return found
end

-- Reads a notification's pending stream entry.
local function read_entry(id)
    local notification = notification_of(id)
    return notification and read_entry_at(notification.entry)
end

-- Returns pending notifications whose stream entry is a retry, by commit time: {id =, commit =}.
local function oldest_retried(most)
    local found = {}
    local rows = call('ZRANGEBYSCORE', prefix .. KEY_RETRIED, '-inf', '+inf', 'WITHSCORES', 'LIMIT', 0, 4 * most)
    for i = 1, #rows, 2 do
        if call('HEXISTS', prefix .. KEY_PENDING, rows[i]) == 0 then
            call('ZREM', prefix .. KEY_RETRIED, rows[i]) -- stale since a failover
        elseif #found < most then
            found[#found + 1] = {id = rows[i], commit = tonumber(rows[i + 1])}
        end
    end
    return found
end

local function attempts_of(found)
    return route_number(found.route, FRAME_NOTIFICATION_AT_ATTEMPTS, FRAME_NOTIFICATION_AT_AUDIENCE_LEN)
end
local function limit_of(found)
    return route_number(found.route, FRAME_NOTIFICATION_AT_RETRY_LIMIT, FRAME_NOTIFICATION_AT_ATTEMPTS)
end

-- Returns the notification's ack timeout, or `set`, the configured default.
local function ack_timeout_of(found, set)
    if not route_flag(found.route, FRAME_ACK_TIMED) then return set end
    return route_number(found.route, FRAME_NOTIFICATION_AT_ACK_TIMEOUT, FRAME_NOTIFICATION_AT_XID)
end
local LETTERS = STORE_BACKOFF_LETTERS
local function backoff_number(route)
    local kind = route_number(route, FRAME_NOTIFICATION_AT_BACKOFF, FRAME_NOTIFICATION_AT_RETRY_LIMIT)
    return kind < #LETTERS and kind or 0
end
local function backoff_of(found)
    local kind = backoff_number(found.route)
    return LETTERS:sub(kind + 1, kind + 1)
end
-- Returns the letter of the backoff, or '-' without retries.
local function pending_backoff(route)
    local kind = backoff_number(route)
    return route_flag(route, FRAME_RETRY_ENABLED) and LETTERS:sub(kind + 1, kind + 1) or '-'
end

-- Returns the table owner as text, or nil without limits.
local function pending_owner(route)
    local owner = table_owner(route)
    return owner ~= 0 and integer_text(owner) or nil
end

-- Makes stream entries of one commit pending. Their delivery time in the group is the time of the
-- commit, so XPENDING returns their age.
local function claim(entries, from, last, commit)
    local words = {'XCLAIM', stream, 'clairon', 'relay', 0}
    for i = from, last do words[#words + 1] = entries[i] end
    if commit > 0 then
        words[#words + 1] = 'TIME'
        words[#words + 1] = integer_text(commit)
    end
    words[#words + 1] = 'FORCE'
    words[#words + 1] = 'JUSTID'
    call(unpack(words))
end

local function pack_text(text)
    return string.char(math.floor(#text / 256), #text % 256) .. text
end

local function pack_users(users)
    local packed = {}
    for i, user in ipairs(users) do packed[i] = pack_text(user) end
    return table.concat(packed)
end

-- If a user joins an open-ended audience later, the score is that of the first stream entry.
-- That entry is stored with the retries under the empty name, which no user has.
local function keep_first_entry(id, entry)
    call('HSETNX', prefix .. KEY_RETRIES .. id, '', entry)
    notifications[id].is_retried = true
end

local function first_entry(id, notification)
    return notification.is_retried and call('HGET', prefix .. KEY_RETRIES .. id, '') or notification.entry
end

-- The decoder writes this string at the end of the JSON document. No payload can end with it.
local TAIL_MAX = 512
local ATTEMPTS = '^(.*' .. ENVELOPE_ATTEMPTS_TEXT .. ')%d+(' .. ENVELOPE_RETRY_LIMIT_TEXT .. '%d+' ..
    ENVELOPE_BACKOFF_TEXT .. '"%u+"' .. ENVELOPE_END_TEXT .. ')$'
local function with_attempts(data, attempts)
    local from = math.max(1, #data - TAIL_MAX)
    local head, tail = data:sub(from):match(ATTEMPTS)
    return head and data:sub(1, from - 1) .. head .. attempts .. tail or data
end

-- Replaces the pending stream entry by a retry for these users at the end of the stream.
local function replace_entry(found, attempts, users)
    local id = found.id
    local route = route_bytes(found.route, 0, FRAME_NOTIFICATION_AT_ATTEMPTS) ..
        string.char(math.floor(attempts / 256), attempts % 256) ..
        route_bytes(found.route, FRAME_NOTIFICATION_AT_AUDIENCE_LEN, #found.route)
    local data = with_attempts(found.data, attempts)
    local fields = {'id', id, 'route', route, 'data', data, 'retry_users', pack_users(users)}
    if found.open_ended then
        fields[#fields + 1] = 'open_ended'
        fields[#fields + 1] = found.open_ended
    end
    local entry = add_entry(unpack(fields))
    record_large(stream, entry, #route + #data)
    if found.entry then call('XACK', stream, 'clairon', found.entry) end
    local commit = commit_ms(route)
    claim({entry}, 1, 1, commit)
    notifications[id] = notification_of(id) or {left = 0, backoff = pending_backoff(route), owner = pending_owner(route)}
    if found.open_ended then keep_first_entry(id, found.entry) end
    notifications[id].is_retried = true
    call('ZADD', prefix .. KEY_RETRIED, integer_text(commit), id)
    notifications[id].entry = entry
    mark_changed(id)
    found.entry, found.route, found.data = entry, route, data
    return entry
end
