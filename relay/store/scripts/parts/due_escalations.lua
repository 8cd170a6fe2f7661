-- due_escalations.lua: sends the escalations that are due (escalations.lua). Requires the names of due.lua.

do
-- include: web_push.lua
    -- Returns the route with another time of the commit.
    local function route_at(route, ms)
        local bytes, number = '', ms * 1000
        for _ = FRAME_NOTIFICATION_AT_COMMIT_US + 1, FRAME_NOTIFICATION_AT_EXPIRES_US do
            bytes, number = string.char(number % 256) .. bytes, math.floor(number / 256)
        end
        return route_bytes(route, 0, FRAME_NOTIFICATION_AT_COMMIT_US) .. bytes ..
            route_bytes(route, FRAME_NOTIFICATION_AT_EXPIRES_US, #route)
    end

    -- Returns true if the Web Pushes of an escalation must wait until the caller has read the stream entry with their text.
    -- Users whom only a token puts into a group receive none.
    local routes = {}
    function receipts.must_read_route(id, notification)
        if routes[id] or (ARGV[6] or '') == '' or notification.open_ended or not receipts.sends_pushes(notification) then return false end
        local found, must_wait = reading.entry_of(id)
        routes[id] = found and found.route
        bytes_left = bytes_left - (found and found.bytes or 0)
        -- Only a call without an entry wants one, so that retries follow each entry that was read.
        if must_wait and not reading.given then receipts.wanted_route = receipts.wanted_route or notification.entry end
        return must_wait
    end

    -- Adds the Web Pushes of users without an ack, to be sent even if they have a session, as after a first attempt. A
    -- Web Push that is in the queue already remains there. Those that a push service has accepted are not repeated.
    function receipts.push_escalated(id, users, fields)
        if not routes[id] then return end
        local key, fresh = prefix .. KEY_WEB_PUSH .. id, {}
        for i, user in ipairs(users) do
            local is_queued = call('ZSCORE', prefix .. KEY_WEB_PUSH_DUE, id .. ':' .. user) or
                call('SISMEMBER', prefix .. KEY_WEB_PUSH_USERS .. id, user) == 1
            if is_queued and (call('HGET', key, 'state ' .. user) or '') == '' then call('HSET', key, 'state ' .. user, '1') end
            if not is_queued and not receipts.is_pushed(fields[i]) then fresh[#fresh + 1] = user end
        end
        local left = tonumber(call('HGET', key, 'left') or nil) or 0
        -- Without an expiration, they are kept as long as if the notification were new.
        local route = route_at(routes[id], now)
        add_web_pushes(id, web_push_text(route), web_push_urgency(route), route, fresh, now, true)
        if #fresh > 0 and left > 0 then call('HINCRBY', key, 'left', left) end
        for _, user in ipairs(fresh) do call('HSET', key, 'state ' .. user, '1') end
    end
end

receipts.is_escalating = {} -- by id: its escalation is not complete
do
    local ESCALATIONS_MAX, ESCALATED_MAX = 500, 500

    -- Adds the receipts and Web Pushes of users without an ack.
    local function add_escalated(id, notification, level, users)
        local fields = call('HMGET', prefix .. KEY_RECEIPT_STATE .. id, unpack(users))
        local retries = receipts.retries_of(id, notification.is_retried, users, 1, #users)
        local outcome, origin = level == 1 and 'escalated' or 'escalated' .. level, receipts.state_of(id).origin
        for i, user in ipairs(users) do
            local delivered, round = receipts.first_delivery(fields[i], notification)
            receipts.add(id, user, outcome, round, now, delivered, retries and delivered_retries(retries[i]) or 0, receipts.NO_COUNTS, origin)
        end
        receipts.push_escalated(id, users, fields)
    end

    -- Escalates a notification for the next users without an ack. Those that were redriven have their own times.
    -- Returns true after the last user.
    local function escalate_users(id, notification, level)
        local state, users = receipts.state_of(id), {}
        local page = call('HSCAN', prefix .. KEY_ACK .. id, state.cursors[level], 'COUNT', ESCALATED_MAX)
        for i = 1, #page[2], 2 do
            if page[2][i + 1] == '0' then users[#users + 1] = page[2][i] end
        end
        for from = 1, #users, CHUNK do
            local chunk = {unpack(users, from, math.min(from + CHUNK - 1, #users))}
            if notification.is_retried then
                local fields, first_round = call('HMGET', prefix .. KEY_RECEIPT_STATE .. id, unpack(chunk)), {}
                for i, user in ipairs(chunk) do
                    local _, round = receipts.first_delivery(fields[i])
                    if round == 1 then first_round[#first_round + 1] = user end
                end
                chunk = first_round
            end
            if #chunk > 0 then add_escalated(id, notification, level, chunk) end
        end
        pairs_left = pairs_left - #page[2] / 2
        state.cursors[level], state.is_changed = page[1], true
        return page[1] == '0'
    end

    -- Adds the receipts of the escalations that are due. They use half of what a call may do, and retries at least the other
    -- half. They precede the outcomes of the same pairs, so a notification whose escalation is not complete waits for the next
    -- call.
    function receipts.escalate_due()
        local members = call('ZRANGEBYSCORE', prefix .. KEY_ESCALATIONS, '-inf', integer_text(now), 'LIMIT', 0, ESCALATIONS_MAX)
        local least_pairs, least_bytes = pairs_left / 2, bytes_left / 2
        receipts.has_more_escalations = #members == ESCALATIONS_MAX
        for _, member in ipairs(members) do
            if pairs_left <= least_pairs or bytes_left <= least_bytes then
                receipts.has_more_escalations = true
                break
            end
            local level, id, user = tonumber(member:sub(1, 1)), member:sub(2, FRAME_UUID_TEXT + 1), member:sub(FRAME_UUID_TEXT + 3)
            local notification, is_done = notification_of(id), true
            if notification and notification.receipts then
                if receipts.must_read_route(id, notification) then
                    receipts.is_escalating[id], is_done = true, false
                elseif user == '' then
                    is_done = escalate_users(id, notification, level)
                    receipts.is_escalating[id] = not is_done
                    if not is_done then more = 1 end
                elseif call('HGET', prefix .. KEY_ACK .. id, user) == '0' then
                    add_escalated(id, notification, level, {user})
                end
            end
            if is_done then receipts.remove_escalation(member) end
            pairs_left = pairs_left - 1
        end
        if receipts.has_more_escalations then more = 1 end
        pairs_left, bytes_left = math.max(pairs_left, least_pairs), math.max(bytes_left, least_bytes)
    end

    -- True if an escalation of a notification, or of these users, may not be complete.
    function receipts.must_escalate(id, users)
        local notification = notification_of(id)
        if receipts.is_escalating[id] then return true end
        if not receipts.has_more_escalations or not notification or not (notification.receipts or ''):find('e', 1, true) then return false end
        for level = 1, FRAME_ESCALATIONS do
            for i = 0, #users do
                local at = call('ZSCORE', prefix .. KEY_ESCALATIONS, receipts.escalation_member(level, id, users[i] or ''))
                if at and tonumber(at) <= now then return true end
            end
        end
        return false
    end
end
