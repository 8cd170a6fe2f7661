-- report.lua: stores delivery reports, which start the ack timeout.
-- KEYS: stream. ARGV: prefix, ack timeout, backoff base, backoff cap, retention of traces (all in
-- ms), then a kind, user and id of each report. The kinds are:
--   S  delivered; followed by the connection, and the attempt
--   U  not delivered, because the connection is not subscribed to the topic; followed by the connection
--   K  delivered and reported before, since a store that lost data may lack that report, and the
--      session may have missed an ack
--   Q  query: a session with a full in-flight window has not sent it; followed by the notification's stream entry
-- Returns a list of index, from 0, and state of the reports whose pair is not pending: 1 it never was,
-- 2 acknowledged, 3 ended otherwise, 4 with Q, its stream entry was lost.
local stream, prefix = KEYS[1], ARGV[1]
local call = redis.call
-- include: lone_report.lua
local reply = store_lone_report()
if reply then return reply end
-- include: notifications.lua
-- include: stream_entry.lua
-- include: ended.lua
-- include: large_backwards.lua

local FIRST = 6
local timeout, base, cap = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local now, states, ids, dues, ack_events = now_ms(), {}, {}, {}, {}
local NEVER_PENDING, ACKED, ENDED, LOST = 1, 2, 3, 4
local now_text = integer_text(now)

-- Adds a user of an open-ended audience to the pending users.
local function add_pending_user(id, user, conn)
    local notification = notification_of(id)
    if not notification or not notification.open_ended or is_dead_lettered(id, user) then return nil end
    local acked_ms = call('HGET', unreported_ack_key(id), user)
    if acked_ms then
        call('HDEL', unreported_ack_key(id), user)
        call('HSET', prefix .. KEY_ACK .. id, user, acked_ms)
        if notification.receipts then receipts.record_late_report(id, user, notification, tonumber(acked_ms)) end
        record_event(id, 'sent', now_text, 0, conn, user)
        notification.acked = true
        mark_changed(id)
        record_ended(user, {first_entry(id, notification)})
        ack_events[#ack_events + 1] = pack_text(user) .. pack_text(id)
        return acked_ms
    end
    call('HSET', prefix .. KEY_ACK .. id, user, '0')
    call('ZADD', prefix .. KEY_PENDING_LIST .. user, score_text(first_entry(id, notification)), id)
    if notification.receipts then receipts.add_recipient(id) end
    notification.left = notification.left + 1
    mark_changed(id)
    return '0'
end

local function due_text(notification, id, retries)
    return due_score.of_delivery(notification, id, retries, now, timeout, base, cap)
end

-- A report that is late, or repeated, may be of an attempt before the retry that was added meanwhile. The retry does not
-- count, but it has a due time: the session may have received it as an earlier stream entry.
local function report_delivered(notification, id, user, conn, attempt)
    local retries = 0
    if notification.is_retried then
        local value = call('HGET', prefix .. KEY_RETRIES .. id, user) or '0'
        retries = delivered_retries(value)
        if value:sub(-1) == '+' and attempt > retries then
            retries = retries + 1
            call('HSET', prefix .. KEY_RETRIES .. id, user, retries)
        end
    end
    if notification.receipts then
        receipts.record_delivery(id, user, notification, now_text)
        if retries > 0 then receipts.record_attempts(id, retries) end
    end
    if notification.backoff ~= '-' then
        dues[#dues + 1] = due_text(notification, id, retries)
        dues[#dues + 1] = id .. ':' .. user
    end
    record_event(id, 'sent', now_text, retries, conn, user)
end

-- Sets the due time only if it is missing, because the store may have lost it.
local function report_again(notification, id, user)
    if notification.receipts then receipts.record_delivery(id, user, notification, now_text) end
    if notification.backoff == '-' then return end
    local retries = delivered_retries(call('HGET', prefix .. KEY_RETRIES .. id, user))
    call('ZADD', prefix .. KEY_DUE, 'NX', due_text(notification, id, retries), id .. ':' .. user)
end

-- Only the oldest entries are trimmed, so an entry that is missing behind an older one was lost.
local oldest -- the oldest stream entry, or false
local function is_lost(entry)
    if has_entry(stream, entry) then return false end
    if oldest == nil then oldest = oldest_entry(stream) or false end
    return oldest and score_text(oldest) + 0 < score_text(entry) + 0
end

-- The state of an ended pair is kept with that of the notification's other users, or in its trace.
local function ended_state(id, user, state)
    if state or call('HEXISTS', prefix .. KEY_ACKED .. id, user) == 1 then return ACKED end
    local found = NEVER_PENDING
    for _, event in ipairs(call('LRANGE', prefix .. KEY_TRACE .. id, 0, -1)) do
        local stage, of = event:match('^(%a+) %S+ %S+ %S+ (.*)$')
        if of == user then
            found = stage == 'acked' and ACKED or (stage == 'errored' or stage == 'dropped') and ENDED or found
        end
    end
    return found
end

for at = FIRST, #ARGV, 3 do ids[#ids + 1] = ARGV[at + 2] end
load_notifications(ids, 1)
for at = FIRST, #ARGV, 3 do
    local kind, rest, user, id = ARGV[at]:sub(1, 1), ARGV[at]:sub(2), ARGV[at + 1], ARGV[at + 2]
    local conn, attempt = rest:match('^(%S*) ?(%d*)$')
    if kind == 'Q' or conn == '' then conn = '-' end
    local state = call('HGET', prefix .. KEY_ACK .. id, user) or kind ~= 'U' and add_pending_user(id, user, conn)
    local notification = state == '0' and notification_of(id)
    if kind == 'U' then
        if notification then record_event(id, 'unsubscribed', now_text, 0, conn, user) end
    elseif notification and kind == 'S' then
        report_delivered(notification, id, user, conn, tonumber(attempt) or math.huge)
    elseif notification and kind == 'K' then
        report_again(notification, id, user)
    elseif state ~= '0' then
        states[#states + 1] = (at - FIRST) / 3
        states[#states + 1] = kind == 'Q' and is_lost(rest) and LOST or ended_state(id, user, state)
    end
end
if #ack_events > 0 then add_ack_event('-', table.concat(ack_events)) end
call_chunked(dues, 'ZADD', prefix .. KEY_DUE, 'GT') -- the latest delivery determines the due time
save_notifications()
write_ended()
write_events(ARGV[5])
return states
