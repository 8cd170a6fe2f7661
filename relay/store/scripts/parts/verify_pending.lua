-- verify_pending.lua: repairs pending notifications after each start of the server, which may have executed a part of a
-- transaction (hello.lua). A pair is pending exactly if its state in KEY_ACK is `0`. The part may have been of an
-- acknowledgement, which is requested again, or counts, with its receipt, which may be a repetition.
-- A large audience is not verified. Requires stream_entry.lua.

local verify_pending
do
    local PAGE, PAIRS = 20, 1000

    -- Adds what a pending pair lacks. Returns the number of pending pairs.
    local function verify_users(id, notification, states)
        local score, left = score_text(first_entry(id, notification)), 0
        for i = 1, #states, 2 do
            if states[i + 1] == '0' then
                left = left + 1
                if call('ZADD', prefix .. KEY_PENDING_LIST .. states[i], 'NX', score, id) == 1 and notification.backoff ~= '-' then
                    call('ZADD', prefix .. KEY_DUE, 'NX', integer_text(now_ms()), id .. ':' .. states[i])
                end
            end
        end
        return left
    end

    -- Of a notification that was being completed, all users have acknowledged.
    local function add_acked(id, notification, states)
        local value, is_completing = pending_value(notification), #states == 0
        if is_completing then states = call('HGETALL', prefix .. KEY_ACKED .. id) end
        for i = 1, #states, 2 do
            local at = states[i + 1]
            if at ~= '0' or is_completing then
                receipts.record_acked(id, value, states[i], {}, at ~= '0' and at or integer_text(now_ms()))
            end
        end
    end

    -- Returns the number of users.
    local function verify(id)
        local notification = notification_of(id)
        if not notification or notification.is_large then return 0 end
        local entry = notification.entry
        if #call('XPENDING', stream, 'clairon', entry, entry, 1) == 0 then claim({entry}, 1, 1, tonumber(entry:match('^%d+'))) end
        local states = call('HGETALL', prefix .. KEY_ACK .. id)
        local left = verify_users(id, notification, states)
        if left ~= notification.left then
            if notification.receipts then add_acked(id, notification, states) end
            notification.left = left
            mark_changed(id)
            if left == 0 and not notification.open_ended then complete(id) end
        end
        return #states / 2
    end

    -- Verifies about PAIRS pairs. Returns true if more follow.
    function verify_pending()
        local meta, pairs_left = prefix .. KEY_META, PAIRS
        local cursor = call('HGET', meta, META_VERIFY)
        if not cursor then return false end
        call('HDEL', meta, META_VERIFY) -- a store that is full accepts the writes after this one
        repeat
            local page = call('HSCAN', prefix .. KEY_PENDING, cursor, 'COUNT', PAGE)
            cursor = page[1]
            for i = 1, #page[2], 2 do pairs_left = pairs_left - 1 - verify(page[2][i]) end
        until cursor == '0' or pairs_left <= 0
        if cursor == '0' then return false end
        call('HSET', meta, META_VERIFY, cursor)
        return true
    end
end
