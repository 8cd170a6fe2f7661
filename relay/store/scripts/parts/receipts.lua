-- receipts.lua: receipts of the notifications whose rules ask for them, or for escalations. Requires
-- notifications.lua up to its functions for notifications.
--
-- The hash KEY_RECEIPT_STATE of such a notification has these fields:
--   ''    (no user has this name) its recipients; then its round, the highest number of delivered retries, the
--         number of pairs that ended with each of OUTCOMES, and the cursor of each escalation, separated
--         by blanks, unless they have their first values; then emitter, source and topic as they are in the JSON
--   user  the time in ms of the first delivery, or '-'; the user's round if above 1; then p if a push service has
--         accepted a Web Push. Without an ack, a pair that never was delivered ends as unreached
-- complete() deletes the hash. If pairs can be redriven it remains, with the next round, until the error log
-- has no entry of the notification.
-- A notification for one user has no hash until it is retried, escalated or redriven: its pending value has the
-- first delivery, and the origin. So its scripts need no command for its state.
--
-- Lua hashes each byte of each string, and formats numbers slowly. So a receipt is joined in one step, from
-- parts that many receipts of a call share; times are texts in ms.

-- A script may have 200 local names, so these functions are in a table. A script that includes json.lua too must do so
-- before notifications.lua, because the names of the first include are local to this block.
local receipts = {}
do
-- include: json.lua
    -- Escalations; due_escalations.lua sends them. A member of KEY_ESCALATIONS is the level, the notification, and a
    -- redriven user; without a user, all users in their first round. The score is the time in ms. It is removed when it
    -- was sent, or when the notification is complete.
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
    -- The outcome of a notification is the first one that a pair has, otherwise acked.
    local OUTCOMES = {'forgotten', 'dropped', 'exhausted', 'expired', 'unreached'}
    local OUTCOME_AT = {forgotten = 1, dropped = 2, exhausted = 3, expired = 4, unreached = 5}
    local REDRIVABLE_FROM = 3
    local FIRST_STATE = '^(%d+)(,.*)$'
    local STATE = '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (.*)$'

    local receipt_states, receipt_ids = {}, {} -- by id, and the ids
    local state_texts = {} -- by id, as they were read
    local ended_at -- the time of the ends in this call
    local gone_users = {} -- by id: users whose state is deleted
    local delivered_users, delivered_text = {}, nil -- by id: users with a delivery at that time
    local delivered_values = {} -- by id, with the first delivery

    function receipts.is_value_with(value) return value:find(' c', 1, true) ~= nil end

    -- Parses the fields between stream entry and origin of a value with receipts. Many values have the same
    -- part, which is parsed only once.
    local known_parts = {}
    local function of_value(value, from, to)
        local part = value:sub(from, (to or 0) - 1)
        local known = known_parts[part]
        if not known then
            local kind = part:match(' c(%S+)')
            known = {of_users = kind:sub(1, 1) == 'u', is_retried = is_retried_value(part), may_be_large = part:find(' [lo]'),
                -- one user, no expiration, one delivery, no escalations
                is_single = (kind == 'n' or kind == 'u') and part:sub(1, 3) == ' 1 ' and not part:find(' [alorx]'),
                escalates = kind:find('e', 1, true)}
            known_parts[part] = known
        end
        return known
    end

    -- Returns emitter, source and topic as the document contains them: its origin.
    function receipts.origin_of(data)
        local from = data:find(ENVELOPE_EMITTER_TEXT, 1, true)
        local to = from and data:find(ENVELOPE_OPERATION_TEXT, from, true)
        if to then return data:sub(from, to - 1) end
        return ENVELOPE_EMITTER_TEXT .. '""' .. ENVELOPE_SOURCE_TEXT .. '""' .. ENVELOPE_TOPIC_TEXT .. '""'
    end

    local function new_state(round, recipients, origin)
        return {round = round, recipients = recipients, attempts = 0, counts = {0, 0, 0, 0, 0}, cursors = {'0', '0'},
            ended = {}, origin = origin}
    end

    -- Creates the state of a notification. Returns its origin if the pending value must have it, or nil. A blank would
    -- end the field, and JSON has an escape for it.
    function receipts.add_state(id, recipients, is_large, data)
        local origin = receipts.origin_of(data)
        if recipients == 1 and not is_large then
            return origin:find(' ', 1, true) and origin:gsub(' ', '\\u0020') or origin
        end
        call('HSET', prefix .. KEY_RECEIPT_STATE .. id, '', count_text(recipients) .. origin)
        return nil
    end

    -- Whether the pending value has the whole state, so that there is no hash.
    local function is_in_value(notification)
        return notification.origin and not notification.is_retried and not notification.receipts:find('e', 1, true)
    end

    local function state_text(state)
        return string.format('%d %d %d %d %d %d %d %d %s %s ', state.recipients, state.round, state.attempts,
            state.counts[1], state.counts[2], state.counts[3], state.counts[4], state.counts[5], state.cursors[1],
            state.cursors[2]) .. state.origin
    end

    -- Returns the state from the stored text, or from the pending value; a state without counts if the store lost it.
    local function keep_receipt_state(id, text)
        local recipients, round, attempts, c1, c2, c3, c4, c5, e1, e2, origin = (text or ''):match(STATE)
        local notification = notifications[id]
        if text and not recipients then recipients, origin = text:match(FIRST_STATE) end
        if not recipients and type(notification) == 'table' then recipients, origin = notification.left, notification.origin end
        local state = new_state(tonumber(round or 1), tonumber(recipients or 0), origin or receipts.origin_of(''))
        if round then
            state.attempts, state.cursors = tonumber(attempts), {e1, e2}
            state.counts = {tonumber(c1), tonumber(c2), tonumber(c3), tonumber(c4), tonumber(c5)}
        end
        receipt_states[id] = state
        receipt_ids[#receipt_ids + 1] = id
        return state
    end

    -- Returns the origin from the stored text. Many notifications have the same text.
    local origins = {}
    local function origin_of_state(id, text)
        state_texts[id] = text
        if not text then return receipts.origin_of('') end
        local origin = origins[text] or text:sub((text:find(',', 1, true)))
        origins[text] = origin
        return origin
    end

    function receipts.state_of(id)
        if receipt_states[id] then return receipt_states[id] end
        local notification = notification_of(id)
        local text = state_texts[id]
        if not text and not (notification and is_in_value(notification)) then
            text = call('HGET', prefix .. KEY_RECEIPT_STATE .. id, '')
        end
        return keep_receipt_state(id, text)
    end

    -- Returns the time of a user's first delivery, or nil, and the user's round, from the user's field, or from the
    -- pending value if there is none.
    local first_rounds = {} -- fields that are only a time, because many users have the same
    function receipts.first_delivery(field, notification)
        if first_rounds[field] then return field, 1 end
        local of_value = notification and notification.delivered
        if not field then return of_value, 1 end
        if not field:find('[- p]') then
            first_rounds[field] = true
            return field, 1
        end
        local text, round = field:match('^([^ p]+) ?(%d*)')
        round = tonumber(round) or 1
        if text ~= '-' then return text, round end
        return round == 1 and of_value or nil, round
    end

    function receipts.is_pushed(field) return field and field:sub(-1) == 'p' end
    local function sends_pushes(notification) return notification.receipts:find('p', 1, true) ~= nil end
    receipts.sends_pushes = sends_pushes

    -- A push service has accepted a user's Web Push: further escalations send none.
    function receipts.record_pushed(id, user)
        local notification, key = notification_of(id), prefix .. KEY_RECEIPT_STATE .. id
        if not notification or not notification.receipts or not sends_pushes(notification) then return end
        local field = call('HGET', key, user) or notification.delivered or '-'
        if not receipts.is_pushed(field) then call('HSET', key, user, field .. 'p') end
    end

    -- The receipts of a call are packed into few stream entries, because Lua hashes each byte of a new string, and a command
    -- costs more than a receipt. The fields of an entry, in their order:
    --   n      its number of receipts; the first field
    --   t      a template: one or two receipts as JSON, with byte 5 between them. JSON contains no control characters, so
    --          bytes 1 to 4 are placeholders
    --   d      the ms of the next first deliveries, or null, which also is the value before the first `d`
    --   a      the ms of the next ends
    --   others the name is the id of a notification, or '' for that of the field before; the value is a user. Each adds the
    --          receipts of the last template: byte 1 becomes the id, byte 2 the user, byte 3 the delivery, byte 4 the end
    -- receipts_page.lua and packed_receipts.c read it. Earlier releases wrote one receipt in an entry: its `id`, and its JSON as `data`.
    local receipts_key, fields, field_count, receipt_count = prefix .. KEY_RECEIPTS, {'n', ''}, 2, 0
    local template, template_receipts, of_outcome, of_round, of_at, of_attempts, of_counts, of_origin, of_id, of_delivered
    local id_end, middle, written_at
    local NULL = 'null'
    receipts.NO_COUNTS = ',"acked":' .. NULL .. ENVELOPE_RECIPIENTS_TEXT .. NULL .. '}'
    -- The counts of a notification with one user, who acknowledged it; and those of both its receipts.
    receipts.ONE, receipts.BOTH = ',"acked":1' .. ENVELOPE_RECIPIENTS_TEXT .. '1}', ''

    local function add_field(name, value)
        fields[field_count + 1], fields[field_count + 2] = name, value
        field_count = field_count + 2
    end

    local function template_of(user, delivered, counts)
        return '{"id":"\1:' .. user .. id_end .. '","notification":"\1","user_id":"' .. user .. middle .. delivered ..
            ENVELOPE_ATTEMPTS_TEXT .. count_text(of_attempts) .. of_origin .. counts
    end

    -- Sets what the next receipts have in common. `counts` is NO_COUNTS for those of users.
    local function set_template(outcome, round, at, attempts, counts, origin)
        of_at = at
        if origin == of_origin and counts == of_counts and outcome == of_outcome and attempts == of_attempts and round == of_round then
            return
        end
        if outcome ~= of_outcome or round ~= of_round then
            id_end = ':' .. outcome .. ':' .. count_text(round)
            middle = '","outcome":"' .. outcome .. '","round":' .. count_text(round) .. ',"at":\4,"delivered_at":'
        end
        of_outcome, of_round, of_attempts, of_counts, of_origin = outcome, round, attempts, counts, origin
        template_receipts = 1
        if counts == receipts.NO_COUNTS then
            template = template_of('\2', '\3', counts)
        elseif counts == receipts.BOTH then
            template = template_of('\2', '\3', receipts.NO_COUNTS) .. '\5' .. template_of('', NULL, receipts.ONE)
            template_receipts = 2
        else
            template = template_of('', NULL, counts)
        end
        if receipt_count > 0 then add_field('t', template) end
    end

    function receipts.write()
        if receipt_count == 0 then return end
        fields[2] = count_text(receipt_count)
        call('XADD', receipts_key, '*', unpack(fields, 1, field_count))
        field_count, receipt_count, of_id, of_delivered, written_at = 2, 0, nil, nil, nil
    end

    -- Adds receipts of the template. `user` is '' for the notification's own one. `delivered` may be nil.
    local function add_receipt(id, user, delivered)
        if receipt_count == 0 then add_field('t', template) end
        if of_at ~= written_at then
            written_at = of_at
            add_field('a', type(of_at) == 'number' and integer_text(of_at) or of_at)
        end
        if delivered ~= of_delivered and user ~= '' then
            of_delivered = delivered
            add_field('d', delivered or NULL)
        end
        fields[field_count + 1], fields[field_count + 2] = id == of_id and '' or id, user
        of_id, field_count, receipt_count = id, field_count + 2, receipt_count + template_receipts
        if receipt_count >= STORE_ENTRY_RECEIPTS then receipts.write() end
    end

    function receipts.add(id, user, outcome, round, at, delivered, attempts, counts, origin)
        set_template(outcome, round, at, attempts, counts, origin)
        add_receipt(id, user, delivered)
    end

    local function has_user_receipts(receipts) return receipts:sub(1, 1) == 'u' end

    -- Returns the delivered retries of users, in their order; nil if the notification was not retried.
    function receipts.retries_of(id, is_retried, users, from, last)
        return is_retried and call('HMGET', prefix .. KEY_RETRIES .. id, unpack(users, from, last))
    end

    -- The state of these users of a notification is deleted, with other changes.
    local function forget_users(id, users)
        local gone = gone_users[id] or {}
        gone_users[id] = gone
        for _, user in ipairs(users) do gone[#gone + 1] = user end
    end

    -- Adds the receipts of acknowledged pairs: `first`, and other users. Their state remains until the notification is
    -- complete, unless the audience may be large.
    function receipts.record_acked(id, value, first, more, at)
        local to = value:find(' i', 1, true)
        local known = of_value(value, value:find(' ', 1, true), to)
        local of_one = to and {}
        if to then of_one.origin, of_one.delivered = split_receipt_state(value, to) end
        ended_at = at
        local users = {first}
        for i, user in ipairs(more) do users[i + 1] = user end
        if known.may_be_large then forget_users(id, users) end
        if not known.of_users then return end
        local has_hash = not to or known.is_retried or known.escalates
        for from = 1, #users, CHUNK do
            local last = math.min(from + CHUNK - 1, #users)
            local fields = has_hash and call('HMGET', prefix .. KEY_RECEIPT_STATE .. id, '', unpack(users, from, last)) or {}
            local retries = receipts.retries_of(id, known.is_retried, users, from, last)
            local origin, is_set = to and of_one.origin or origin_of_state(id, fields[1]), false
            for i = from, last do
                local field = fields[i - from + 2]
                local is_first = first_rounds[field] and not retries
                local delivered, round = field, 1
                if not is_first then delivered, round = receipts.first_delivery(field, of_one) end
                if not (is_first and is_set) then
                    set_template('acked', round, at, retries and delivered_retries(retries[i - from + 1]) or 0, receipts.NO_COUNTS, origin)
                    is_set = is_first
                end
                add_receipt(id, users[i], delivered)
            end
        end
    end

    -- Adds the receipts of a notification with one user, who acknowledged it after one delivery. Returns its stream entry; nil,
    -- and does nothing, for another notification.
    function receipts.record_single(id, user, value, at)
        local from, to = value:find(' ', 1, true), value:find(' i', 1, true)
        local known = to and of_value(value, from, to)
        if not (known and known.is_single) then return nil end
        local origin, delivered = split_receipt_state(value, to)
        if known.of_users then
            receipts.add(id, user, 'acked', 1, at, delivered, 0, receipts.BOTH, origin)
        else
            receipts.add(id, '', 'acked', 1, at, nil, 0, receipts.ONE, origin)
        end
        return value:sub(1, from - 1)
    end

    -- Counts a pair that ended without an ack, and adds its receipt.
    function receipts.record_ended(id, user, outcome, at)
        local notification = notification_of(id)
        if not notification or not notification.receipts then return end
        local state = receipts.state_of(id)
        if state.ended[user] then return end
        local key = prefix .. KEY_RECEIPT_STATE .. id
        local field = not is_in_value(notification) and call('HGET', key, user)
        local delivered, round = receipts.first_delivery(field, notification)
        local is_final = OUTCOME_AT[outcome] < REDRIVABLE_FROM
        if not is_final and not delivered then outcome = 'unreached' end
        local attempts = notification.is_retried and delivered_retries(call('HGET', prefix .. KEY_RETRIES .. id, user)) or 0
        state.ended[user], state.is_changed, ended_at = true, true, at
        state.counts[OUTCOME_AT[outcome]] = state.counts[OUTCOME_AT[outcome]] + 1
        state.attempts = math.max(state.attempts, attempts)
        if is_final then
            forget_users(id, {user})
        elseif delivered and (not field or field:sub(1, 1) == '-') then
            call('HSET', key, user, delivered .. (receipts.is_pushed(field) and 'p' or '')) -- for a redrive
        end
        if has_user_receipts(notification.receipts) then
            receipts.add(id, user, outcome, round, at, delivered, attempts, receipts.NO_COUNTS, state.origin)
        end
    end

    -- Counts a new pair of an open-ended audience.
    function receipts.add_recipient(id)
        local state = receipts.state_of(id)
        state.recipients, state.is_changed = state.recipients + 1, true
        return state
    end

    -- The ack of a new pair of an open-ended audience arrived before the delivery report.
    function receipts.record_late_report(id, user, notification, at)
        local state = receipts.add_recipient(id)
        if has_user_receipts(notification.receipts) then
            receipts.add(id, user, 'acked', 1, at, at, 0, receipts.NO_COUNTS, state.origin)
        end
    end

    function receipts.record_attempts(id, retries)
        local state = receipts.state_of(id)
        if retries > state.attempts then state.attempts, state.is_changed = retries, true end
    end

    -- Adds the receipt of a completed notification, and deletes its state unless pairs can be redriven.
    function receipts.complete(id, notification)
        local state, ended, redrivable, outcome = receipts.state_of(id), 0, 0, 'acked'
        for i = #OUTCOMES, 1, -1 do
            if state.counts[i] > 0 then outcome = OUTCOMES[i] end
            ended = ended + state.counts[i]
            if i >= REDRIVABLE_FROM then redrivable = redrivable + state.counts[i] end
        end
        if state.recipients == 0 then outcome = 'unreached' end
        if notification.receipts:sub(1, 1) ~= '-' then
            local counts = ',"acked":' .. count_text(math.max(0, state.recipients - ended)) .. ENVELOPE_RECIPIENTS_TEXT ..
                count_text(state.recipients) .. '}'
            receipts.add(id, '', outcome, state.round, ended_at or integer_text(now_ms()), nil, state.attempts, counts, state.origin)
        end
        if notification.receipts:find('e', 1, true) then
            for level = 1, FRAME_ESCALATIONS do
                receipts.remove_escalation(receipts.escalation_member(level, id, ''))
            end
        end
        if redrivable > 0 and call('EXISTS', prefix .. KEY_ERROR_PARTS .. id) == 1 then
            state.round, state.cursors, state.is_changed = state.round + 1, {'0', '0'}, true
        else
            state.is_deleted = true
        end
    end

    -- A redrive opens a completed notification again.
    function receipts.reopen_notification(id, data)
        local text = call('HGET', prefix .. KEY_RECEIPT_STATE .. id, '')
        keep_receipt_state(id, text or state_text(new_state(2, 0, receipts.origin_of(data))))
    end

    -- A redrive opens a pair again, which ended for `reason`.
    function receipts.reopen_pair(id, user, reason)
        local state, key = receipts.state_of(id), prefix .. KEY_RECEIPT_STATE .. id
        local field = call('HGET', key, user)
        local delivered, round = receipts.first_delivery(field)
        local pushed = receipts.is_pushed(field) and 'p' or ''
        local at = OUTCOME_AT[delivered and reason or 'unreached'] or OUTCOME_AT.expired
        if state.counts[at] > 0 then
            state.counts[at] = state.counts[at] - 1
        else
            state.recipients = state.recipients + 1 -- the store lost the state
        end
        state.is_changed = true
        call('HSET', key, user, (delivered or '-') .. ' ' .. (round + 1) .. pushed)
    end

    -- Records the first delivery of a pending pair, with other changes.
    function receipts.record_delivery(id, user, notification, now_text)
        if notification.delivered then return end
        if notification.origin then
            notification.delivered = now_text
            delivered_values[id] = notification.value .. ' d' .. now_text
            return
        end
        local users = delivered_users[id] or {}
        delivered_users[id], delivered_text = users, now_text
        users[#users + 1] = user
    end

    -- Does not change an earlier first delivery. A `-` precedes the round of a redriven user.
    local function write_deliveries(id, users)
        local key, fields, notification = prefix .. KEY_RECEIPT_STATE .. id, {}, notification_of(id)
        if #users == 1 and not notification.is_retried and not sends_pushes(notification) then
            call('HSETNX', key, users[1], delivered_text)
            return
        end
        local before = call('HMGET', key, unpack(users))
        for i, user in ipairs(users) do
            local round = not before[i] and '' or before[i]:match('^%-(.*)$')
            if round then fields[#fields + 1], fields[#fields + 2] = user, delivered_text .. round end
        end
        call_chunked(fields, 'HMSET', key)
    end

    function receipts.save()
        receipts.write()
        for id, users in pairs(delivered_users) do write_deliveries(id, users) end
        local values = {}
        for id, value in pairs(delivered_values) do
            if not changed[id] then values[#values + 1], values[#values + 2] = id, value end
        end
        call_chunked(values, 'HMSET', prefix .. KEY_PENDING)
        for _, id in ipairs(receipt_ids) do
            local state, key = receipt_states[id], prefix .. KEY_RECEIPT_STATE .. id
            if state.is_deleted then
                keys_to_delete[#keys_to_delete + 1] = key
                gone_users[id] = nil
            elseif state.is_changed then
                call('HSET', key, '', state_text(state))
            end
        end
        for id, users in pairs(gone_users) do call_chunked(users, 'HDEL', prefix .. KEY_RECEIPT_STATE .. id) end
        receipts.save_escalations()
    end
end
