-- due.lua: processes due pairs in one step: retries, dead-letters or expires them.
-- KEYS: stream. ARGV: prefix, ack timeout, retention of traces, backoff base, backoff cap (all in ms).
-- Returns {retried pairs, stream entries added for them, exhausted pairs, expired pairs, 1 if more
-- pairs are due, entries in the error log, relays with sessions, entries trimmed from the error
-- log, throttled pairs}.
local stream, prefix = KEYS[1], ARGV[1]
local call = redis.call
-- include: delivery.lua
-- include: stream_entry.lua
-- include: error_log.lua
-- include: large_entries.lua
-- include: ended.lua

-- A notification costs as much as NOTIFICATION_PAIRS pairs of a large audience.
local PAIRS_MAX, NOTIFICATION_PAIRS, BYTES_MAX = 1000, 10, 1024 * 1024
-- Users of a notification who become due within this time share the stream entry of a retry. The
-- first user waits for the other users, since no user receives a retry before the due time.
local timeout, base, cap = tonumber(ARGV[2]), tonumber(ARGV[4]), tonumber(ARGV[5])
local slack_ms = math.min(500, timeout / 4)
local now = now_ms()
local retried, retry_entries, exhausted, expired, more = 0, 0, 0, 0, 0
local pairs_left, bytes_left, ended_pairs = PAIRS_MAX, BYTES_MAX, {}

-- The error log contains the notification's data once. After its first entry, `found` may be nil.
local first_parts = {}
local function log_error(id, found, reason, attempts, users)
    local _, owner = logged_before(id)
    local has_data = found and not owner
    if has_data then bytes_left = bytes_left - #found.data end
    owner = owner or error_owner(found and found.route or '')
    local entry = log_entry(id, owner, reason, attempts, cjson.encode(users), has_data and found.data or '',
        has_data and found.route or '')
    add_part(id, owner, entry, attempts, has_data)
    if has_data then first_parts[#first_parts + 1] = id end
    for _, user in ipairs(users) do
        ended_pairs[#ended_pairs + 1] = pack_text(user) .. pack_text(id)
        record_event(id, 'errored', integer_text(now), attempts, reason, user)
        local score = tonumber(call('ZSCORE', prefix .. KEY_PENDING_LIST .. user, id) or
            call('ZSCORE', prefix .. KEY_SHARED_PENDING_LIST, id) or nil)
        if score then record_ended(user, {entry_of_score(score) .. '!'}) end
        call('ZREM', prefix .. KEY_PENDING_LIST .. user, id)
    end
end

-- Marks users of an open-ended audience, because a later delivery report must not add them again.
local function mark_dead_lettered(id, users)
    local notification, states = notification_of(id), {}
    if not notification or not notification.open_ended then return end
    for i, user in ipairs(users) do states[2 * i - 1], states[2 * i] = user, DEAD_LETTERED end
    call_chunked(states, 'HMSET', prefix .. KEY_RETRIES .. id)
    notification.is_retried = true
    mark_changed(id)
end

-- Handles up to PAIRS_MAX users of a large audience. The next call continues with the next users.
local function expire(id)
    local key = prefix .. KEY_ACK .. id
    local logged, cursor = logged_before(id), '0'
    local found = not logged and read_entry(id) or nil
    local seen, missing = {}, {}
    repeat
        local page = call('HSCAN', key, cursor, 'COUNT', 500)
        cursor = page[1]
        for i = 1, #page[2], 2 do
            local user, state = page[2][i], page[2][i + 1]
            seen[#seen + 1] = user
            if state == '0' then
                missing[#missing + 1] = user
                due_to_remove[#due_to_remove + 1] = id .. ':' .. user
            else
                record_event(id, 'acked', state, 0, '-', user)
            end
        end
    until cursor == '0' or #seen >= PAIRS_MAX
    if #missing > 0 then
        log_error(id, found, 'expired', found and attempts_of(found) or logged or 0, missing)
        if notification_of(id) then
            notification_of(id).left = notification_of(id).left - #missing
            mark_changed(id)
        end
    end
    call_chunked(seen, 'HDEL', key)
    expired, pairs_left = expired + #missing, pairs_left - #seen - NOTIFICATION_PAIRS
    if call('EXISTS', key) == 0 then return complete(id) end
    more = 1
    mark_dead_lettered(id, seen)
end

-- The users of an open-ended audience are known only from delivery reports. A late expiration means
-- that the store or all relays were down, and reports and acks may still arrive. So the expiration
-- and all due times are deferred once. A score with a fraction of 0.5 ms marks a deferred
-- time.
local LATE_MS, REPORTS_MS = 2000, 10000 -- relays reconnect within 5 s
local function defer_expiration(id, ends, users)
    local notification, was_deferred = notification_of(id), ends % 1 == 0.5
    if not notification or not notification.open_ended then return false end
    if not was_deferred then
        if ends > now - LATE_MS then return false end
        ends = now + REPORTS_MS + 0.5
    elseif ends <= now then
        return false
    end
    local ends_text = string.format('%.1f', ends)
    call('ZADD', prefix .. KEY_DUE, ends_text, id .. ':')
    for _, user in ipairs(users) do call('ZADD', prefix .. KEY_DUE, ends_text, id .. ':' .. user) end
    return true
end

local function dead_letter(id, found, attempts, users)
    log_error(id, found, 'exhausted', attempts, users)
    call('HDEL', prefix .. KEY_ACK .. id, unpack(users))
    exhausted = exhausted + #users
    local notification = notification_of(id)
    notification.left = notification.left - #users
    mark_changed(id)
    if notification.open_ended then
        notification.is_retried = true
        for _, user in ipairs(users) do call('HSET', prefix .. KEY_RETRIES .. id, user, DEAD_LETTERED) end
    elseif notification.left <= 0 then
        complete(id)
    end
end

local function retry_users(id, found, retries, users)
    local before = found.entry
    local entry = replace_entry(found, retries + 1, users)
    notification_of(id).is_retried = true
    local counts = {}
    for _, user in ipairs(users) do
        counts[#counts + 1] = user
        counts[#counts + 1] = retries .. '+'
        record_event(id, 'retried', integer_text(now), retries + 1, '-', user)
    end
    call('HMSET', prefix .. KEY_RETRIES .. id, unpack(counts))
    add_copy(id, before, entry, retries, users)
    retried, retry_entries, bytes_left = retried + #users, retry_entries + 1, bytes_left - #found.data
end

-- An absent user must not use up an attempt, so the user's retry is deferred.
local PRESENCE_MS = 10000 -- relays send a heartbeat every 2 s
local relays = call('ZRANGEBYSCORE', prefix .. KEY_RELAYS, integer_text(now - PRESENCE_MS), '+inf')
local function is_present(user)
    for _, relay in ipairs(relays) do
        if call('SISMEMBER', prefix .. KEY_PRESENCE .. relay, user) == 1 then return true end
    end
    return false
end

local function defer(id, found, retries, user)
    local due = now + ack_timeout_of(found, timeout) + backoff_ms(backoff_of(found), retries, id, base, cap)
    -- A score that ends in .25 ms marks a deferred retry, which has no ack timeout (pending_page.lua).
    call('ZADD', prefix .. KEY_DUE, string.format('%.2f', due + 0.25), id .. ':' .. user)
end

-- Users with different numbers of retries receive separate stream entries.
local function retry(id, users)
    local found = read_entry(id)
    if not found then return expire(id) end
    bytes_left = bytes_left - #found.data
    local states = call('HMGET', prefix .. KEY_ACK .. id, unpack(users))
    local counts_before = call('HMGET', prefix .. KEY_RETRIES .. id, unpack(users))
    local groups, order = {}, {}
    for i, user in ipairs(users) do
        local retries = delivered_retries(counts_before[i])
        if states[i] == '0' and not is_present(user) then
            defer(id, found, retries, user)
        else
            if states[i] ~= '0' then
                due_to_remove[#due_to_remove + 1] = id .. ':' .. user
            else
                if not groups[retries] then
                    groups[retries] = {}
                    order[#order + 1] = retries
                end
                table.insert(groups[retries], user)
            end
        end
    end
    table.sort(order)
    local handled = false
    -- Each group writes the notification. The groups beyond the limit of bytes remain due.
    local function handle_groups(is_exhausted, handle)
        for _, retries in ipairs(order) do
            if (retries >= limit_of(found)) == is_exhausted then
                if handled and bytes_left <= 0 then
                    more = 1
                    return
                end
                for _, user in ipairs(groups[retries]) do due_to_remove[#due_to_remove + 1] = id .. ':' .. user end
                handle(id, found, retries, groups[retries])
                handled = true
            end
        end
    end
    handle_groups(false, retry_users)
    handle_groups(true, dead_letter)
    pairs_left = pairs_left - #users - NOTIFICATION_PAIRS
end

-- The retries of one table owner with limits take as much as one call a second, and as much in reserve,
-- so that they do not delay those of others. What is due earlier than that is throttled once: it moves to
-- the next free time of the owner. A score with a fraction of 0.75 ms marks a throttled retry.
local RESERVE_MS, THROTTLED = 1000, 0.75
local free_times, was_throttled, moved, throttled = {}, {}, {}, 0

-- Returns the next free time of an owner: it is in the past, by the reserve at most, until the owner has
-- used the reserve up.
local function free_time(owner)
    if not free_times[owner] then
        local stored = call('HGET', prefix .. KEY_OWNER_RETRIES, owner)
        local free, used = (stored or ''):match('^(%S+) (%S+)$')
        free, used = tonumber(free or 0), tonumber(used or 0)
        if used > now then free = free - used + now end -- the clock was set back
        free_times[owner] = math.max(free, now - RESERVE_MS)
    end
    return free_times[owner]
end

-- Returns those of a notification's due users who receive the retry now. The other users are throttled.
local function admit(id, users)
    local notification = notification_of(id)
    local owner = notification and notification.owner
    if not owner then return users end
    local admitted, others = {}, {}
    for _, user in ipairs(users) do table.insert(was_throttled[id .. ':' .. user] and admitted or others, user) end
    if #others == 0 then return users end
    local free = free_time(owner)
    local work = (#others + NOTIFICATION_PAIRS) / PAIRS_MAX + large_bytes(stream, notification.entry) / BYTES_MAX
    free_times[owner] = free + 1000 * work
    if free <= now then return users end
    local free_text = string.format('%.2f', math.floor(free) + THROTTLED)
    for _, user in ipairs(others) do
        moved[#moved + 1], moved[#moved + 2] = free_text, id .. ':' .. user
    end
    throttled = throttled + #others
    return admitted
end

-- Groups the due pairs by notification, oldest first.
local rows = call('ZRANGEBYSCORE', prefix .. KEY_DUE, '-inf', integer_text(now), 'WITHSCORES',
    'LIMIT', 0, PAIRS_MAX)
local order, users_of, due = {}, {}, {}
for i = 1, #rows, 2 do
    local id, user, at = rows[i]:sub(1, FRAME_UUID_TEXT), rows[i]:sub(FRAME_UUID_TEXT + 2), tonumber(rows[i + 1])
    if not due[id] and (user == '' or at <= now - slack_ms) then
        due[id] = true
        users_of[id] = users_of[id] or {}
        order[#order + 1] = id
    end
    if user ~= '' then
        users_of[id] = users_of[id] or {}
        table.insert(users_of[id], user)
        if at % 1 == THROTTLED then was_throttled[rows[i]] = true end
    end
end
if #rows == 2 * PAIRS_MAX and tonumber(rows[#rows]) <= now - slack_ms then more = 1 end

load_notifications(order, 1)
for _, id in ipairs(order) do
    if pairs_left <= 0 or bytes_left <= 0 then
        more = 1
        break
    end
    local ends = tonumber(call('ZSCORE', prefix .. KEY_DUE, id .. ':') or nil)
    if ends and (ends <= now or ends % 1 == 0.5) and defer_expiration(id, ends, users_of[id]) then
        pairs_left = pairs_left - #users_of[id]
    elseif ends and ends <= now then
        expire(id)
    else
        local users = admit(id, users_of[id])
        if #users > 0 then retry(id, users) end
    end
end
call_chunked(moved, 'ZADD', prefix .. KEY_DUE)
for owner, free in pairs(free_times) do
    call('HSET', prefix .. KEY_OWNER_RETRIES, owner, string.format('%.3f %.0f', free, now))
end
if #ended_pairs > 0 then
    call('XADD', prefix .. KEY_ACK_EVENTS, 'MAXLEN', '~', ACK_EVENTS_MAX, '*', 'gone', table.concat(ended_pairs))
end
save_notifications()
write_ended()
write_events(ARGV[3])
for _, id in ipairs(first_parts) do
    if not notifications[id] then forget_single_part(id) end
end
local trimmed, is_full = trim_errors()
if is_full then more = 1 end
return {retried, retry_entries, exhausted, expired, more, call('XLEN', errors), #relays, trimmed,
    throttled}
