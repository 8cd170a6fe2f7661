-- ack.lua: stores acknowledgements. The last acknowledgement completes its notification.
-- KEYS: stream. ARGV: prefix, relay id, retention of traces in ms, number of users, each user with
-- the user's number of ids, then all ids in the order of the users. A user may occur several times,
-- at the cost of one command each.
-- Returns {new acknowledgements, completed notifications}.
local stream, prefix = KEYS[1], ARGV[1]
local call = redis.call
-- include: lone_ack.lua
local reply = store_lone_ack()
if reply then return reply end
-- include: notifications.lua
-- include: stream_entry.lua
-- include: ended.lua

local args = ARGV
local name, trace_ms, first_id = args[2], args[3], 5 + 2 * tonumber(args[4])
local pending_list, state_key = prefix .. KEY_PENDING_LIST, prefix .. KEY_ACK
local acked_key = prefix .. KEY_ACKED
local now_text = integer_text(now_ms())
local event_head, id_len = 'acked ' .. now_text .. ' 0 - ', pack_text(('x'):rep(FRAME_UUID_TEXT)):sub(1, 2)
local due_pairs, acked = {}, 0
local ack_events = has_other_relays(name) and {}

-- The current user, the constant parts of the user's trace event and ack events, and the stream
-- entries of the user's acks.
local user, event, packed, mine
-- By id, the first stream entry of a notification that was retried: its value has the last one.
local first_entries = {}

-- Acks that are not written yet, by notification. `firsts` contains the first user, `others` any
-- further users.
local firsts, others = {}, {}
local values, values_len = {}, 0 -- ids and values of notifications that remain pending

local function write_states(key, first, more)
    if #more == 0 then
        call('HSET', key, first, now_text)
        return
    end
    local states = {first, now_text}
    for i = 1, #more do states[2 * i + 1], states[2 * i + 2] = more[i], now_text end
    call_chunked(states, 'HMSET', key)
end

-- Completes a notification. The last acks are added to the kept state, or become trace events.
local function complete_acked(id, first, more)
    if notification_of(id).acked and keep_acks(id) then
        write_states(acked_key .. id, first, more)
    else
        add_event(id, event_head .. first)
        for i = 1, #more do add_event(id, event_head .. more[i]) end
    end
    complete(id)
end

local NONE = {}
local function apply_acks(id)
    local value, first, more = notifications[id], firsts[id], others[id] or NONE
    local left = value_after_acks(value, #more + 1)
    firsts[id] = false
    if more ~= NONE then others[id] = nil end
    if left == nil then return end
    if receipts.is_value_with(value) then receipts.record_acked(id, value, first, more, now_text) end
    if not left then return complete_acked(id, first, more) end
    write_states(state_key .. id, first, more)
    value = left
    notifications[id] = value
    values[values_len + 1], values[values_len + 2] = id, value
    values_len = values_len + 2
end

local function acknowledge(id)
    local value = notifications[id]
    if not value then return end
    acked = acked + 1
    due_pairs[acked] = id .. ':' .. user
    if ack_events then ack_events[acked] = packed .. id end
    local entry = entry_before_last_ack(value) or receipts.record_single(id, user, value, now_text)
    mine[#mine + 1] = entry or first_entries[id] or pending_entry(value)
    if entry then
        event = event or event_head .. user
        write_event(id, event, entry, trace_ms)
        return complete_entry(id, entry)
    end
    if not firsts[id] then
        firsts[id] = user
        return
    end
    local more = others[id]
    if more then more[#more + 1] = user else others[id] = {user} end
end

-- Handles an id that may be missing from the user's pending list. Possible causes: the audience is large, so
-- the notification is in the list for all users; the user acknowledged the id before, perhaps in this call;
-- the notification is complete; the user is not a recipient; the audience is open-ended and another relay has
-- not yet reported the delivery. In the last case the ack is stored until the report arrives.
local function acknowledge_unlisted(id)
    if firsts[id] then apply_acks(id) end
    local value = notifications[id]
    if not value then return end
    local state = call('HGET', state_key .. id, user)
    if state == '0' then return acknowledge(id) end
    local notification = not state and notification_of(id)
    if notification and notification.open_ended and not is_dead_lettered(id, user) then
        call('HSET', unreported_ack_key(id), user, now_text)
        call('PEXPIRE', unreported_ack_key(id), UNREPORTED_ACK_MS)
    end
    notifications[id] = value -- restores the unparsed value
end

local function find_first_entry(id)
    local score = tonumber(call('ZSCORE', pending_list .. user, id) or call('ZSCORE', prefix .. KEY_SHARED_PENDING_LIST, id) or nil)
    first_entries[id] = score and entry_of_score(score)
end

-- Ids in the user's pending list are pending. If one ZREM removes all of a chunk, none is checked singly.
local function acknowledge_chunk(from, to)
    for i = from, to do
        local value = notifications[args[i]]
        if value and is_retried_value(value) then find_first_entry(args[i]) end
    end
    local removed
    if from == to then
        removed = call('ZREM', pending_list .. user, args[from])
    else
        removed = call('ZREM', pending_list .. user, unpack(args, from, to))
    end
    local acknowledge_one = removed == to - from + 1 and acknowledge or acknowledge_unlisted
    for i = from, to do acknowledge_one(args[i]) end
end

-- Lua parses numbers slowly, and only a few different counts occur.
local numbers = {}
local function number_of(text)
    local number = numbers[text] or tonumber(text)
    numbers[text] = number
    return number
end

local ids, count = {}, 0
for i = first_id, #args do
    local id = args[i]
    if notifications[id] == nil then
        notifications[id], count = false, count + 1
        ids[count] = id
    end
end
load_notifications(ids, 1)
local at = first_id
for i = 5, first_id - 1, 2 do
    user = args[i]
    event, packed, mine = nil, ack_events and pack_text(user) .. id_len, {}
    local stop = at + number_of(args[i + 1])
    for from = at, stop - 1, CHUNK do acknowledge_chunk(from, math.min(from + CHUNK, stop) - 1) end
    at = stop
    record_ended(user, mine)
end
for i = 1, count do
    if firsts[ids[i]] then apply_acks(ids[i]) end
end
if ack_events and acked > 0 then add_ack_event(name, table.concat(ack_events)) end
call_chunked(due_pairs, 'ZREM', prefix .. KEY_DUE)
receipts.write() -- before the values (verify_pending.lua)
call_chunked(values, 'HMSET', prefix .. KEY_PENDING)
save_notifications()
write_ended()
write_events(trace_ms)
return {acked, #completed}
