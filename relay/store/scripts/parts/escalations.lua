-- escalations.lua: adds the escalations of a notification, and removes them. due_escalations.lua sends them. Requires
-- notifications.lua, route.lua and `receipts`.
--
-- A member of KEY_ESCALATIONS is the level, the notification, and a redriven user; without a user, all users in their first
-- round. The score is the time in ms. It is removed when it was sent, or when the notification is complete.
    local receipts_of_bytes = {} -- many notifications have the same bytes
    -- Returns the receipts of a notification as in its pending value, or nil, and its escalations in ms.
    function receipts.of_route(route)
        if not route_flag(route, FRAME_RECEIPTS) then return nil end
        local bytes = route_bytes(route, FRAME_NOTIFICATION_AT_RECEIPTS, FRAME_NOTIFICATION_HEAD_SIZE)
        local known = receipts_of_bytes[bytes]
        if not known then
            local kind, times = route_number(route, FRAME_NOTIFICATION_AT_RECEIPTS, FRAME_NOTIFICATION_AT_ZERO), {0, 0}
            local has_none = route_bytes(route, FRAME_NOTIFICATION_AT_ESCALATIONS, FRAME_NOTIFICATION_HEAD_SIZE) == NO_BYTES
            for level = 1, has_none and 0 or FRAME_ESCALATIONS do
                local at = FRAME_NOTIFICATION_AT_ESCALATIONS + (level - 1) * FRAME_ESCALATION_SIZE
                times[level] = route_number(route, at, at + FRAME_ESCALATION_SIZE)
            end
            local letter = ('-nu'):sub(kind + 1, kind + 1)
            known = {kind = (letter == '' and '-' or letter) .. (times[1] > 0 and 'e' or ''), times = times}
            receipts_of_bytes[bytes] = known
        end
        return known.times[1] > 0 and web_push_text(route) and known.kind .. 'p' or known.kind, known.times
    end

    function receipts.escalation_member(level, id, user) return level .. id .. ':' .. user end

    local members_to_remove = {}
    function receipts.remove_escalation(member) members_to_remove[#members_to_remove + 1] = member end

    -- Adds the escalations of a notification, or of a redriven user, at these times after `from` (in ms).
    function receipts.add_escalations(id, user, from, times)
        if times[1] == 0 then return end
        for level, after in ipairs(times) do
            if after > 0 then call('ZADD', prefix .. KEY_ESCALATIONS, integer_text(from + after), receipts.escalation_member(level, id, user)) end
        end
    end

    function receipts.save_escalations() call_chunked(members_to_remove, 'ZREM', prefix .. KEY_ESCALATIONS) end
