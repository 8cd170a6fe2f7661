-- due.lua: processes due pairs in one step: retries, dead-letters or expires them.
-- KEYS: stream. ARGV: prefix, ack timeout, retention of traces, backoff base, backoff cap, delay of Web Pushes (all in
-- ms; '': none are sent), then a stream entry that the caller has read (read_entry.lua): only its notification, and
-- escalations, are processed, of a retry only the users that it names.
-- Returns {retried pairs, stream entries added for them, exhausted pairs, expired pairs, 1 if more
-- pairs are due, entries in the error log, relays with a heartbeat, entries trimmed from the error
-- log, throttled pairs, what the caller must read (read_entry.lua)}.
local stream, prefix = KEYS[1], ARGV[1]
local call = redis.call
-- include: notifications.lua
-- include: stream_entry.lua
-- include: error_log.lua
-- include: large_entries.lua
-- include: end_pairs.lua
-- include: read_entry.lua
reading.begin(7)

-- A notification costs as much as NOTIFICATION_PAIRS pairs of a large audience.
local PAIRS_MAX, NOTIFICATION_PAIRS, BYTES_MAX = 1000, 10, 1024 * 1024
local timeout, base, cap = tonumber(ARGV[2]), tonumber(ARGV[4]), tonumber(ARGV[5])
-- Users of a notification who become due within this time share the stream entry of a retry. The
-- first user waits for the other users, since no user receives a retry before the due time.
local slack_ms = math.min(STORE_RETRY_SLACK_MS, timeout / 4)
local now = now_ms()
local retried, retry_entries, exhausted, expired, more = 0, 0, 0, 0, 0
local pairs_left, bytes_left = PAIRS_MAX, BYTES_MAX

-- Writes an entry of the error log, and ends the pairs. The log contains the notification's data once: after
-- its first entry, `found` may be nil.
local first_parts = {}
local function move_to_error_log(id, found, reason, attempts, users)
    local _, owner = logged_before(id)
    local has_data, data, route = found and not owner, '', ''
    if has_data then
        bytes_left = bytes_left - found.bytes
        data, route = found.data, found.route
    end
    owner = owner or error_owner(found and found.route or '')
    local entry, is_large = log_entry(id, owner, reason, attempts, cjson.encode(users), data, route,
        (notification_of(id) or {}).receipts)
    if not is_large then add_part(id, owner, entry, attempts, has_data) end
    if has_data then first_parts[#first_parts + 1] = id end
    for _, user in ipairs(users) do end_pair(id, user, 'errored', attempts, reason) end
end

-- Ends all pairs of a notification; those of a large audience in several calls.
local function expire(id)
    local logged = logged_before(id)
    local found, must_wait
    if not logged then found, must_wait = reading.entry_of(id) end
    if must_wait or found and not reading.has_data(found, 'parts') then
        reading.want(notification_of(id).entry, 'parts')
        return
    end
    local users, ended, is_complete = end_notification(id, PAIRS_MAX, function(pending)
        move_to_error_log(id, found, 'expired', found and attempts_of(found) or logged or 0, pending)
    end)
    expired, pairs_left = expired + ended, pairs_left - users - NOTIFICATION_PAIRS
    if not is_complete then more = 1 end
end

-- The users of an open-ended audience are known only from delivery reports. A late expiration means
-- that the store or all relays were down, and reports and acks may still arrive. So the expiration
-- and all due times are postponed once.
local LATE_MS, REPORTS_MS = 2000, 10000 -- relays reconnect within 5 s
local function postpone_expiration(id, expires, users)
    local notification, was_postponed = notification_of(id), due_score.has(expires, due_score.POSTPONED)
    if not notification or not notification.open_ended then return false end
    if not was_postponed then
        if expires > now - LATE_MS then return false end
        expires = now + REPORTS_MS
    elseif expires <= now then
        return false
    end
    local expires_text = due_score.text(expires, due_score.POSTPONED)
    call('ZADD', prefix .. KEY_DUE, expires_text, id .. ':')
    for _, user in ipairs(users) do call('ZADD', prefix .. KEY_DUE, expires_text, id .. ':' .. user) end
    return true
end

local function dead_letter(id, found, attempts, users)
    move_to_error_log(id, found, 'exhausted', attempts, users)
    local notification = notification_of(id)
    exhausted, notification.left = exhausted + #users, notification.left - #users
    mark_changed(id)
    if notification.open_ended or notification.left > 0 or notification.acked then
        receipts.write() -- before the states (verify_pending.lua)
        call('HDEL', prefix .. KEY_ACK .. id, unpack(users))
    end
    if notification.open_ended then
        mark_dead_lettered(id, users)
    elseif notification.left <= 0 then
        complete(id)
    end
end

local function retry_users(id, found, retries, users)
    local before = found.entry
    local entry = replace_entry(found, retries + 1, users)
    local counts = {}
    for _, user in ipairs(users) do
        counts[#counts + 1] = user
        counts[#counts + 1] = retries .. '+'
        record_event(id, 'retried', integer_text(now), retries + 1, '-', user)
    end
    call('HMSET', prefix .. KEY_RETRIES .. id, unpack(counts))
    add_copy(id, before, entry, retries, users)
    retried, retry_entries, bytes_left = retried + #users, retry_entries + 1, bytes_left - found.bytes
end

local relays = call('ZRANGEBYSCORE', prefix .. KEY_RELAYS, integer_text(now - STORE_PRESENCE_MS), '+inf')
local function is_present(user)
    for _, relay in ipairs(relays) do
        if call('SISMEMBER', prefix .. KEY_PRESENCE .. relay, user) == 1 then return true end
    end
    return false
end

-- An absent user must not use up an attempt.
local function suspend(id, retries, user)
    local due = due_score.of_delivery(notification_of(id), id, retries, now, timeout, base, cap, due_score.SUSPENDED)
    call('ZADD', prefix .. KEY_DUE, due, id .. ':' .. user)
end

-- True unless the users that a prepared entry names are these, and users who have acknowledged meanwhile: another one may
-- have delayed the retry.
function reading.names_others(id, users)
    local named, pending = {}, 0
    for user in pairs(reading.users) do named[#named + 1] = user end
    for _, state in ipairs(#named > 0 and call('HMGET', prefix .. KEY_ACK .. id, unpack(named)) or {}) do
        if state == '0' then pending = pending + 1 end
    end
    return pending ~= #users
end

-- Users with different numbers of retries receive separate stream entries. A prepared one is for the users that it names;
-- other users remain due.
local function retry(id, users)
    local found, must_wait = reading.entry_of(id)
    if not found and not must_wait then return expire(id) end
    must_wait = must_wait or not reading.has_data(found, reading.kind)
    local named = not must_wait and not found.data and reading.users
    bytes_left = bytes_left - (must_wait and 0 or found.bytes)
    local states = call('HMGET', prefix .. KEY_ACK .. id, unpack(users))
    local counts_before = call('HMGET', prefix .. KEY_RETRIES .. id, unpack(users))
    local groups, order = {}, {}
    for i, user in ipairs(users) do
        local retries = delivered_retries(counts_before[i])
        if states[i] ~= '0' then
            due_to_remove[#due_to_remove + 1] = id .. ':' .. user
        elseif named and not (named[user] and retries == reading.attempts - 1) then
            more = 1
        elseif not named and not is_present(user) then
            suspend(id, retries, user)
        else
            if not groups[retries] then
                groups[retries] = {}
                order[#order + 1] = retries
            end
            table.insert(groups[retries], user)
        end
    end
    table.sort(order)
    pairs_left = pairs_left - #users - NOTIFICATION_PAIRS
    if must_wait or named and reading.names_others(id, groups[order[1]] or {}) then
        if order[1] then reading.want(notification_of(id).entry, 'entry', order[1] + 1, pack_users(groups[order[1]])) end
        return
    end
    local handled = false
    -- Each group writes the notification. The groups beyond the limit of bytes remain due.
    local function handle_groups(is_exhausted, handle)
        for _, retries in ipairs(order) do
            if (retries >= limit_of(found)) == is_exhausted then
                if handled and bytes_left <= 0 then
                    more = 1
                    return
                end
                if is_exhausted and not reading.has_data(found, 'parts') and not logged_before(id) then
                    reading.want(notification_of(id).entry, 'parts', retries + 1, pack_users(groups[retries]))
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
end

-- The retries of one table owner with limits take as much as one call a second, and as much in reserve,
-- so that they do not delay those of others. What is due earlier than that is throttled once: it moves to
-- the next free time of the owner.
local RESERVE_MS = 1000
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
    local bytes = large_bytes(stream, notification.entry)
    if free <= now and reading.is_missing(notification.entry, bytes) then return users end -- charged when it was read
    free_times[owner] = free + 1000 * ((#others + NOTIFICATION_PAIRS) / PAIRS_MAX + bytes / BYTES_MAX)
    if free <= now then return users end
    local free_text = due_score.text(free, due_score.THROTTLED)
    for _, user in ipairs(others) do
        moved[#moved + 1], moved[#moved + 2] = free_text, id .. ':' .. user
    end
    throttled = throttled + #others
    return admitted
end

-- include: due_escalations.lua

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
        if due_score.has(at, due_score.THROTTLED) then was_throttled[rows[i]] = true end
    end
end
if #rows == 2 * PAIRS_MAX and tonumber(rows[#rows]) <= now - slack_ms then more = 1 end

load_notifications(order, 1)
if reading.given then
    local due_ids = order
    order, more = {}, 1
    for _, id in ipairs(due_ids) do
        if (notification_of(id) or {}).entry == reading.given then order[1] = id end
    end
end
receipts.escalate_due()
for _, id in ipairs(order) do
    if pairs_left <= 0 or bytes_left <= 0 then
        more = 1
        break
    end
    local expires = tonumber(call('ZSCORE', prefix .. KEY_DUE, id .. ':') or nil)
    if receipts.must_escalate(id, users_of[id]) then
        pairs_left = pairs_left - 1
    elseif expires and (expires <= now or due_score.has(expires, due_score.POSTPONED)) and postpone_expiration(id, expires, users_of[id]) then
        pairs_left = pairs_left - #users_of[id]
    elseif expires and expires <= now then
        expire(id)
    else
        local users = admit(id, users_of[id])
        if #users > 0 then retry(id, users) end
    end
end
prepared.discard()
-- A call wants one entry. If retries and escalations want one, they take turns.
if receipts.wanted_route and (not reading.wanted[1] or now % 2 == 0) then
    reading.wanted = {}
    reading.want(receipts.wanted_route, 'route')
end
call_chunked(moved, 'ZADD', prefix .. KEY_DUE)
for owner, free in pairs(free_times) do
    call('HSET', prefix .. KEY_OWNER_RETRIES, owner, string.format('%.3f %.0f', free, now))
end
save_notifications()
write_ended_pairs()
write_events(ARGV[3])
for _, id in ipairs(first_parts) do
    if not notifications[id] then forget_single_part(id) end
end
local trimmed, is_full = trim_errors()
if is_full then more = 1 end
return {retried, retry_entries, exhausted, expired, more, call('XLEN', errors), #relays, trimmed,
    throttled, reading.wanted}
