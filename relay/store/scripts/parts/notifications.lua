-- notifications.lua: state of pending notifications. Requires `call`, `stream` and `prefix`.

-- include: clock.lua
-- include: pending_value.lua
-- include: due_score.lua

-- Passes many arguments to a command, CHUNK at a time because Lua's stack is limited. `option` may
-- be nil.
local CHUNK = 1000
local function call_chunked(items, command, key, option)
    local count = #items
    for from = 1, count, CHUNK do
        local last = math.min(from + CHUNK - 1, count)
        if option then
            call(command, key, option, unpack(items, from, last))
        else
            call(command, key, unpack(items, from, last))
        end
    end
end

-- Returns a stream entry's id as a number that a sorted set stores exactly. Lua formats long
-- numbers slowly, so the leading digits are formatted once per millisecond.
local score_text
do
    local MILLION = 1000000
    local score_ms, score_front, score_rest
    function score_text(entry)
        local ms, seq = entry:match('^(%d+)-(%d+)$')
        if ms ~= score_ms then
            local score = tonumber(ms) * STORE_SCORES_PER_MS
            score_ms, score_rest = ms, score % MILLION
            score_front = integer_text((score - score_rest) / MILLION)
        end
        local rest = score_rest + math.min(tonumber(seq), STORE_SCORES_PER_MS - 1)
        if rest >= MILLION then return integer_text(tonumber(ms) * STORE_SCORES_PER_MS + rest - score_rest) end
        return score_front .. string.format('%06d', rest)
    end
end

-- `notifications` contains by id:
--   a pending notification: a table of pending_value.lua
--   a string: the stored value, which notification_of() parses on first use
--   false: the notification is not pending
-- save_notifications() writes all changes at the end, because many acks of a call change the same
-- keys.
local notifications, changed, completed = {}, {}, {}
local prepared = {} -- large data (prepared.lua)
local due_to_remove, entries_to_ack, keys_to_delete, retried_to_remove, large_to_remove = {}, {}, {}, {}, {}

-- Each retry is a copy of the notification. Many retries of few large notifications would fill the store.
-- include: has_entry.lua

-- The list of a notification's copies begins with the entry that it had before its first retry. While
-- the stream has that entry, no copy is the oldest one of the stream: range.lua would take the
-- deletion of the oldest entry for trimming.
local function copies_of(id)
    local copies = call('LRANGE', prefix .. KEY_COPIES .. id, 0, -1)
    return copies[1] and has_entry(stream, copies[1]) and copies or {}
end

-- Adds a retry for users with this number of earlier retries, and deletes the copies that no user
-- waits for: each of their users has received them, has acknowledged, or has a newer retry.
local function add_copy(id, before, entry, retries, users)
    local key = prefix .. KEY_COPIES .. id
    if call('EXISTS', key) == 0 then call('RPUSH', key, before) end
    local copies = copies_of(id)
    for i = 2, #copies do
        local copy, is_awaited = cjson.decode(copies[i]), false
        for _, state in ipairs(call('HMGET', prefix .. KEY_RETRIES .. id, unpack(copy.users))) do
            if state == copy.retries .. '+' then is_awaited = true end
        end
        if not is_awaited then
            call('XDEL', stream, copy.entry)
            call('LREM', key, 1, copies[i])
        end
    end
    call('RPUSH', key, cjson.encode({entry = entry, retries = retries, users = users}))
end

-- Deletes all copies of a completed notification.
local function delete_copies(id)
    local copies = copies_of(id)
    for i = 2, #copies do call('XDEL', stream, cjson.decode(copies[i]).entry) end
    call('DEL', prefix .. KEY_COPIES .. id)
end

local function load_notifications(ids, first)
    for from = first, #ids, CHUNK do
        local last = math.min(from + CHUNK - 1, #ids)
        local values = call('HMGET', prefix .. KEY_PENDING, unpack(ids, from, last))
        for i = from, last do notifications[ids[i]] = values[i - from + 1] end
    end
end

local function notification_of(id)
    local notification = notifications[id]
    if notification == nil then
        load_notifications({id}, 1)
        notification = notifications[id]
    end
    if type(notification) == 'string' then
        notification = read_pending(notification)
        notifications[id] = notification
    end
    return notification
end

local function mark_changed(id) changed[id] = true end

-- Returns the number of retries delivered to a user. A trailing `+` marks another retry, which is
-- added but not yet delivered.
local function delivered_retries(value) return tonumber((value or ''):match('^%d+') or '0') end

-- This string marks a dead-lettered user of an open-ended audience. A resume or a late ack must not
-- add the user again.
local DEAD_LETTERED = 'given up'
local function is_dead_lettered(id, user)
    return notification_of(id).is_retried and call('HGET', prefix .. KEY_RETRIES .. id, user) == DEAD_LETTERED
end

-- With an open-ended audience, an ack may precede its delivery report. The ack is applied if the
-- report arrives within this time.
local UNREPORTED_ACK_MS = 60000
local function unreported_ack_key(id) return prefix .. KEY_UNREPORTED_ACKS .. id end

-- include: trace_event.lua

-- The traces of notifications, and the acknowledgements that are kept with them.
local kept = {} -- whether a notification's acks are stored separately from its trace
local add_event, record_event, write_events, keep_acks, record_acks
do
    local traces, trace_ids, trace_entries = {}, {}, {}
    function add_event(id, event)
        local events = traces[id]
        if not events then
            traces[id] = event -- most notifications have one event per call
            trace_ids[#trace_ids + 1] = id
            local notification = notification_of(id)
            trace_entries[id] = notification and notification.entry
        elseif type(events) == 'string' then
            traces[id] = {events, event}
        elseif #events < TRACE_EVENTS_MAX then
            events[#events + 1] = event
        end
    end

    -- Adds a non-empty list of events that are older than the events already added.
    local function add_earlier(id, events)
        local newer = traces[id]
        if not newer then add_event(id, events[1]) end
        if type(newer) == 'string' then newer = {newer} end
        for _, event in ipairs(newer or {}) do events[#events + 1] = event end
        traces[id] = events
    end

    function record_event(id, stage, now_text, attempt, detail, user)
        add_event(id, stage .. ' ' .. now_text .. ' ' .. attempt .. ' ' .. detail .. ' ' .. user)
    end

    function write_events(trace_ms)
        for _, id in ipairs(trace_ids) do
            local events = traces[id]
            if type(events) == 'string' then
                write_event(id, events, trace_entries[id], trace_ms)
            else
                local key = prefix .. KEY_TRACE .. id
                maintain_trace(key, call('RPUSH', key, unpack(events)), #events, trace_entries[id], trace_ms)
            end
        end
        for id, is_renewal in pairs(kept) do
            if is_renewal then call('PEXPIRE', prefix .. KEY_ACKED .. id, trace_ms) end
        end
    end

    -- Renames the state of a completed notification and keeps the state as long as the trace. This is
    -- cheaper than separate events. The state of a large audience is not kept. After a redrive, the first state
    -- remains.
    function keep_acks(id)
        local key = prefix .. KEY_ACK .. id
        local count = call('HLEN', key)
        if count == 0 or count > TRACE_EVENTS_MAX then return false end
        kept[id] = call('RENAMENX', key, prefix .. KEY_ACKED .. id) == 1
        return kept[id]
    end

    -- Returns pairs of user and state as a flat list, up to about TRACE_EVENTS_MAX users.
    local function acks_of(key)
        local states, cursor = {}, '0'
        repeat
            local page = call('HSCAN', key, cursor, 'COUNT', TRACE_EVENTS_MAX)
            cursor = page[1]
            for _, text in ipairs(page[2]) do states[#states + 1] = text end
        until cursor == '0' or #states >= 2 * TRACE_EVENTS_MAX
        return states
    end

    -- Converts acks to events if their state is not kept.
    function record_acks(id)
        local states, events, count = acks_of(prefix .. KEY_ACK .. id), {}, 0
        for i = 2, #states, 2 do
            if states[i] ~= '0' and count < TRACE_EVENTS_MAX then
                count = count + 1
                events[count] = 'acked ' .. states[i] .. ' 0 - ' .. states[i - 1]
            end
        end
        if count > 0 then add_earlier(id, events) end
    end
end
-- include: route.lua
-- include: receipts.lua

-- Completes a notification that has no other state than its value, its stream entry and its users.
local function complete_entry(id, entry)
    notifications[id] = false
    completed[#completed + 1] = id
    entries_to_ack[#entries_to_ack + 1] = entry
    keys_to_delete[#keys_to_delete + 1] = prefix .. KEY_ACK .. id
end

-- Completes a notification: for each of its users, it was acknowledged, dead-lettered or expired.
local function complete(id)
    local notification = notification_of(id)
    if notification and notification.receipts then receipts.complete(id, notification) end
    if notification and notification.acked and not kept[id] and not keep_acks(id) then record_acks(id) end
    complete_entry(id, notification and notification.entry or nil)
    if not notification or notification.is_large then large_to_remove[#large_to_remove + 1] = id end
    if not notification or notification.expires then due_to_remove[#due_to_remove + 1] = id .. ':' end
    if not notification or notification.is_retried then
        keys_to_delete[#keys_to_delete + 1] = prefix .. KEY_RETRIES .. id
        retried_to_remove[#retried_to_remove + 1] = id
    end
end

local function save_notifications()
    local values, len = {}, 0
    for id in pairs(changed) do
        local notification = notifications[id]
        if notification then
            values[len + 1], values[len + 2] = id, pending_value(notification)
            len = len + 2
        end
    end
    call_chunked(values, 'HMSET', prefix .. KEY_PENDING)
    call_chunked(entries_to_ack, 'XACK', stream, 'clairon')
    receipts.save()
    -- The hash of a large audience is freed in the background.
    for from = 1, #keys_to_delete, CHUNK do
        call('UNLINK', unpack(keys_to_delete, from, math.min(from + CHUNK - 1, #keys_to_delete)))
    end
    call_chunked(due_to_remove, 'ZREM', prefix .. KEY_DUE)
    call_chunked(retried_to_remove, 'ZREM', prefix .. KEY_RETRIED)
    for _, id in ipairs(retried_to_remove) do delete_copies(id) end
    call_chunked(large_to_remove, 'ZREM', prefix .. KEY_SHARED_PENDING_LIST)
    call_chunked(completed, 'HDEL', prefix .. KEY_PENDING) -- last: see verify_pending.lua
end
