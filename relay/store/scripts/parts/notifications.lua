-- notifications.lua: state of pending notifications. Requires `call`, `stream` and `prefix`.

local function now_ms()
    local time = call('TIME')
    return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function integer_text(number) return string.format('%.0f', number) end
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
-- include: copies.lua

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

-- include: trace_events.lua
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
    if not notification or notification.ends then due_to_remove[#due_to_remove + 1] = id .. ':' end
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
    call_chunked(completed, 'HDEL', prefix .. KEY_PENDING)
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
end

-- The stream of ack events is short, because relays read it promptly.
local ACK_EVENTS_MAX = 256
