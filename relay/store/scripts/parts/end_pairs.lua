-- end_pairs.lua: ends pairs of notification and user that were not acknowledged: their outcomes are
-- exhausted, expired and dropped. ack.lua and forget_pairs.lua end the others. A pair ends in the step that removes its
-- user from KEY_ACK, so it has exactly one outcome. Requires notifications.lua and stream_entry.lua.
-- include: ended.lua

local end_text, ended_pairs = integer_text(now_ms()), {} -- pairs are packed, for the sessions of relays

-- Records the outcome of a pair: `stage` in the trace is errored or dropped, `detail` a reason or '-'.
local function end_pair(id, user, stage, attempts, detail)
    ended_pairs[#ended_pairs + 1] = pack_text(user) .. pack_text(id)
    record_event(id, stage, end_text, attempts, detail, user)
    receipts.record_ended(id, user, stage == 'dropped' and stage or detail, tonumber(end_text))
    local score = tonumber(call('ZSCORE', prefix .. KEY_PENDING_LIST .. user, id) or
        call('ZSCORE', prefix .. KEY_SHARED_PENDING_LIST, id) or nil)
    if score then record_ended(user, {entry_of_score(score) .. '!'}) end
    call('ZREM', prefix .. KEY_PENDING_LIST .. user, id)
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

-- Ends all pairs of a notification, up to about `most` users of a large audience in one call. `end_users`
-- records the ends of pairs. Returns the number of users, the number of pairs that ended, and true if
-- the notification is complete; otherwise the next call continues with the next users.
local function end_notification(id, most, end_users)
    local key, seen, pending, cursor = prefix .. KEY_ACK .. id, {}, {}, '0'
    repeat
        local page = call('HSCAN', key, cursor, 'COUNT', 500)
        cursor = page[1]
        for i = 1, #page[2], 2 do
            local user, state = page[2][i], page[2][i + 1]
            seen[#seen + 1] = user
            if state == '0' then
                pending[#pending + 1] = user
                due_to_remove[#due_to_remove + 1] = id .. ':' .. user
            else
                record_event(id, 'acked', state, 0, '-', user)
            end
        end
    until cursor == '0' or #seen >= most
    if #pending > 0 then
        end_users(pending)
        if notification_of(id) then
            notification_of(id).left = notification_of(id).left - #pending
            mark_changed(id)
        end
    end
    if cursor == '0' then -- save_notifications() deletes the hash after it has written the receipts
        if notification_of(id) then notification_of(id).acked = nil end -- the acks are recorded
        complete(id)
        return #seen, #pending, true
    end
    receipts.write() -- before the states (verify_pending.lua)
    call_chunked(seen, 'HDEL', key)
    mark_dead_lettered(id, seen)
    return #seen, #pending, false
end

-- Frees the slots of the in-flight windows of sessions.
local function write_ended_pairs()
    write_ended()
    if #ended_pairs == 0 then return end
    call('XADD', prefix .. KEY_ACK_EVENTS, 'MAXLEN', '~', ACK_EVENTS_MAX, '*', 'gone', table.concat(ended_pairs))
end
