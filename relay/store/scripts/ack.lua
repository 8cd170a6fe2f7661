-- ack.lua: users acknowledge messages; the last one acknowledges the message as a whole.
-- KEYS: stream. ARGV: prefix, the name of who stores them, how long trails are kept in ms, how many
-- users follow, each user with the number of his acks, then the ids of all, in the users' order. A
-- user may come again, at the price of a command.
-- Returns {acks that were new, messages that are complete}.
local stream, prefix = KEYS[1], ARGV[1]
local call = redis.call
-- include: delivery.lua
-- include: copy.lua

local name, trail_ms, first_id = ARGV[2], ARGV[3], 5 + 2 * tonumber(ARGV[4])
local inbox, state_key, trail_key = prefix .. ':inbox:', prefix .. ':ack:', prefix .. ':trail:'
local now_text = whole(now_ms())
local event_head, id_len = 'acked ' .. now_text .. ' 0 - ', pack_text(('x'):rep(36)):sub(1, 2)
local gone, acked = {}, 0
local states, state_ids = {}, {} -- what is to be written of messages that are not complete
-- Only other relays want to hear of acks. One that is forgotten asks again when it is back.
local told = call('ZCARD', prefix .. ':relays') ~= (call('ZSCORE', prefix .. ':relays', name) and 1 or 0) and {}

-- Of the user whose acks are being taken.
local user, event, packed

local function count_ack(id)
    acked = acked + 1
    gone[acked] = id .. ':' .. user
    if told then told[acked] = packed .. id end
end

local function write_states(id)
    local users = states[id]
    if not users then return end
    if type(users) == 'string' then
        call('HSET', state_key .. id, users, now_text)
    else
        local pairs_of = {}
        for i, one in ipairs(users) do pairs_of[2 * i - 1], pairs_of[2 * i] = one, now_text end
        call_chunked(pairs_of, 'HMSET', state_key .. id)
    end
    states[id] = nil
    messages[id].acked = true
end

-- Acks are events once the message's state goes.
local function end_message(id)
    local before = states[id]
    if type(before) == 'string' then before = {before} end
    for _, one in ipairs(before or {}) do add_event(id, event_head .. one) end
    add_event(id, event)
    states[id] = nil
    complete(id)
end

local function take(id, message)
    count_ack(id)
    message.left = message.left - 1
    if message.left <= 0 and not message.open then return end_message(id) end
    message_changed(id)
    local users = states[id]
    if not users then
        states[id], state_ids[#state_ids + 1] = user, id -- mostly the only one of a call
    elseif type(users) == 'string' then
        states[id] = {users, user}
    else
        users[#users + 1] = user
    end
end

-- Most messages are for one user, have no end and were shown once: of such a one its value says
-- all, as complete() and write_events() would find it out.
local LAST, sub = ' 1 - 0', string.sub
local ended, ended_entries, ended_keys, ended_count = {}, {}, {}, 0
local function take_last(id, value)
    local key, entry = trail_key .. id, sub(value, 1, -7)
    count_ack(id)
    messages[id] = false
    ended_count = ended_count + 1
    ended[ended_count], ended_entries[ended_count] = id, entry
    ended_keys[ended_count] = state_key .. id
    local len = call('RPUSH', key, event)
    if len == 1 or len > TRAIL_MAX then tend_trail(key, len, 1, entry, trail_ms) end
end

-- Not in the user's inbox: acked already, by this very call perhaps, or nobody waits for it, or
-- it was shown to an open audience and its ack is faster than the report of that, which comes
-- by another relay: then the ack waits for it. Else it is an outsider's.
local function take_unlisted(id)
    local message = message_of(id)
    if not message then return end
    write_states(id)
    local state = call('HGET', state_key .. id, user)
    if state == '0' then
        take(id, message)
    elseif not state and message.open and not is_given_up(id, user) then
        call('HSET', early_key(id), user, now_text)
        call('PEXPIRE', early_key(id), EARLY_MS)
    end
end

local function take_listed(id)
    local value = messages[id]
    if not value then return end
    if type(value) == 'string' and sub(value, -6) == LAST then return take_last(id, value) end
    local message = message_of(id)
    if message then take(id, message) end
end

-- What a user's acks take out of his inbox was waited for: one command tells all of them.
local function take_some(from, to)
    local removed
    if from == to then
        removed = call('ZREM', inbox .. user, ARGV[from])
    else
        removed = call('ZREM', inbox .. user, unpack(ARGV, from, to))
    end
    local take_one = removed == to - from + 1 and take_listed or take_unlisted
    for i = from, to do take_one(ARGV[i]) end
end

local ids, count = {}, 0
for i = first_id, #ARGV do
    local id = ARGV[i]
    if messages[id] == nil then
        messages[id], count = false, count + 1
        ids[count] = id
    end
end
load_messages(ids, 1)
local at = first_id
for i = 5, first_id - 1, 2 do
    user = ARGV[i]
    event, packed = event_head .. user, told and pack_text(user) .. id_len
    local stop = at + tonumber(ARGV[i + 1])
    for from = at, stop - 1, CHUNK do take_some(from, math.min(from + CHUNK, stop) - 1) end
    at = stop
end
for _, id in ipairs(state_ids) do
    if messages[id] then write_states(id) end
end
if told and acked > 0 then
    call('XADD', prefix .. ':receipts', 'MAXLEN', '~', RECEIPTS_MAX, '*', 'by', name,
        'acked', table.concat(told))
end
call_chunked(gone, 'ZREM', prefix .. ':due')
call_chunked(ended, 'HDEL', prefix .. ':pending')
call_chunked(ended_entries, 'XACK', stream, 'clairon')
for from = 1, ended_count, CHUNK do
    call('DEL', unpack(ended_keys, from, math.min(from + CHUNK - 1, ended_count)))
end
save_messages()
write_events(trail_ms)
return {acked, ended_count + #completed}
