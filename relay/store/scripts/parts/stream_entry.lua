-- stream_entry.lua: stream entries of pending notifications, and their retries. Requires
-- notifications.lua.
-- include: route.lua
-- include: record_large.lua

-- Scores in pending lists distinguish 1024 stream entries per millisecond. After the clock was set back, all
-- new entries have the same millisecond. Further entries then move to the next millisecond, so that
-- scores remain unique.
local SEQ_MAX = 1000
-- Returns false if an entry has moved: it must be added again.
local function has_unique_score(entry)
    if #entry <= 16 then return true end -- 13 digits, a dash, at most 2 digits
    local ms, seq = entry:match('^(%d+)-(%d+)$')
    if tonumber(seq) < SEQ_MAX then return true end
    call('XDEL', stream, entry)
    call('XSETID', stream, integer_text(tonumber(ms) + 1) .. '-0')
    return false
end

-- Adds an entry, or takes the one that was prepared for this notification. Its further fields follow. Returns it, and the bytes of data and route.
local function add_entry(id, route, data, ...)
    local entry, bytes
    if prepared.id == id then entry, bytes, prepared.entry = prepared.entry, prepared.bytes, nil end
    if not entry then
        bytes = #route + #data
        entry = call('XADD', stream, '*', 'id', id, 'route', route, 'data', data, ...)
        if not has_unique_score(entry) then entry = call('XADD', stream, '*', 'id', id, 'route', route, 'data', data, ...) end
    end
    record_large(stream, entry, bytes, id, route, ...)
    return entry, bytes
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

-- Returns what the pending value of a notification contains of its header, and its escalations in
-- ms, or nil.
local function pending_of(route)
    local pending = {left = 0, backoff = '-', entry = false, receipts = false, origin = false} -- room for all that most have
    if route_flag(route, FRAME_RETRY_ENABLED) then
        local backoff = route_number(route, FRAME_NOTIFICATION_AT_BACKOFF, FRAME_NOTIFICATION_AT_RETRY_LIMIT)
        local letters = STORE_BACKOFF_LETTERS
        if backoff >= #letters then backoff = 0 end
        pending.backoff = letters:sub(backoff + 1, backoff + 1)
    end
    if route_flag(route, FRAME_ACK_TIMED) then
        pending.ack_timeout = route_number(route, FRAME_NOTIFICATION_AT_ACK_TIMEOUT, FRAME_NOTIFICATION_AT_XID)
    end
    local owner, kind, times = table_owner(route), receipts.of_route(route)
    if owner ~= 0 then pending.owner = integer_text(owner) end
    if kind then pending.receipts = kind end
    return pending, times
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

-- include: ack_events.lua

local function pack_users(users)
    local packed = {}
    for i, user in ipairs(users) do packed[i] = pack_text(user) end
    return table.concat(packed)
end

-- If a user joins an open-ended audience later, the score is that of the first stream entry.
-- That entry is stored with the retries under the empty name, which no user has.
local function keep_first_entry(id, entry)
    call('HSETNX', prefix .. KEY_RETRIES .. id, '', entry)
end

local function first_entry(id, notification)
    return notification.is_retried and call('HGET', prefix .. KEY_RETRIES .. id, '') or notification.entry
end

local with_attempts
do
    -- The decoder writes this string at the end of the JSON document. No payload can end with it. A document
    -- with this number of attempts is not copied. wanted.c does the same for large entries.
    local TAIL_MAX = 512
    local ATTEMPTS = '^(.*' .. ENVELOPE_ATTEMPTS_TEXT .. ')(%d+)(' .. ENVELOPE_RETRY_LIMIT_TEXT .. '%d+' ..
        ENVELOPE_BACKOFF_TEXT .. '"%u+"' .. ENVELOPE_END_TEXT .. ')$'
    function with_attempts(data, attempts)
        local from = math.max(1, #data - TAIL_MAX)
        local head, before, tail = data:sub(from):match(ATTEMPTS)
        if not head or tonumber(before) == attempts then return data end
        return data:sub(1, from - 1) .. head .. attempts .. tail
    end
end

-- Replaces the pending stream entry by a retry for these users at the end of the stream. `found` has no data if a retry
-- was prepared.
local function replace_entry(found, attempts, users)
    local id = found.id
    local route = route_bytes(found.route, 0, FRAME_NOTIFICATION_AT_ATTEMPTS) ..
        string.char(math.floor(attempts / 256), attempts % 256) ..
        route_bytes(found.route, FRAME_NOTIFICATION_AT_AUDIENCE_LEN, #found.route)
    local data = found.data and with_attempts(found.data, attempts)
    local fields = {'retry_users', pack_users(users)}
    if found.open_ended then
        fields[#fields + 1] = 'open_ended'
        fields[#fields + 1] = found.open_ended
    end
    local entry = add_entry(id, route, data, unpack(fields))
    if found.entry then call('XACK', stream, 'clairon', found.entry) end
    local commit = commit_ms(route)
    claim({entry}, 1, 1, commit)
    notifications[id] = notification_of(id) or pending_of(route)
    if found.open_ended then keep_first_entry(id, found.entry) end
    notifications[id].is_retried = true
    call('ZADD', prefix .. KEY_RETRIED, integer_text(commit), id)
    notifications[id].entry = entry
    mark_changed(id)
    found.entry, found.route, found.data = entry, route, data
    return entry
end
