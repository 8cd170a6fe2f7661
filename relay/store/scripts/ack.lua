-- ack.lua: users acknowledge messages; the last one acknowledges the message as a whole.
-- KEYS: stream. ARGV: prefix, the name of who stores them, how long trails are kept in ms, then
-- pairs of user and message id.
-- Returns {acks that were new, messages that are complete}.
local stream, prefix = KEYS[1], ARGV[1]
local call = redis.call
-- include: delivery.lua
-- include: copy.lua

local FIRST = 4
local now_text = whole(now_ms())
local acked_now, id_len = 'acked ' .. now_text .. ' 0 - ', pack_text(('x'):rep(36)):sub(1, 2)
local told, gone, acked = {}, {}, 0
local states, state_ids = {}, {} -- what is to be written of messages that are not complete

local function write_states(id)
    if not states[id] then return end
    call_chunked(states[id], 'HMSET', prefix .. ':ack:' .. id)
    states[id] = nil
    messages[id].acked = true
end

-- Acks are events once the message's state goes.
local function end_message(id, user)
    local before = states[id] or {}
    for i = 1, #before, 2 do add_event(id, acked_now .. before[i]) end
    add_event(id, acked_now .. user)
    states[id] = nil
    complete(id)
end

local function take(id, message, row)
    acked = acked + 1
    gone[acked] = id .. row.tail
    told[3 * acked - 2], told[3 * acked - 1], told[3 * acked] = row.packed, id_len, id
    message.left = message.left - 1
    if message.left <= 0 and not message.open then return end_message(id, row.user) end
    message_changed(id)
    local list = states[id]
    if not list then
        list = {}
        states[id], state_ids[#state_ids + 1] = list, id
    end
    list[#list + 1] = row.user
    list[#list + 1] = now_text
end

-- Not in the user's inbox: acked already, by this very call perhaps, or nobody waits for it, or
-- it was shown to an open audience and its ack is faster than the report of that, which comes
-- by another relay: then the ack waits for it. Else it is an outsider's.
local function take_unlisted(id, message, row)
    write_states(id)
    local key = prefix .. ':ack:' .. id
    local state = call('HGET', key, row.user)
    if state == '0' then
        take(id, message, row)
    elseif not state and message.open and not is_given_up(id, row.user) then
        call('HSET', early_key(id), row.user, now_text)
        call('PEXPIRE', early_key(id), EARLY_MS)
    end
end

-- What a user's acks take out of his inbox was waited for: one command tells all of them.
local function take_row(user, row, from, to)
    local removed = call('ZREM', prefix .. ':inbox:' .. user, unpack(row, from, to))
    local take_one = removed == to - from + 1 and take or take_unlisted
    for i = from, to do
        local message = messages[row[i]]
        if message then take_one(row[i], message, row) end
    end
end

local ids, rows, users, count = {}, {}, {}, 0
for at = FIRST, #ARGV, 2 do
    local user, id = ARGV[at], ARGV[at + 1]
    local row = rows[user]
    if not row then
        row = {user = user, tail = ':' .. user, packed = pack_text(user), len = 0}
        rows[user], users[#users + 1] = row, user
    end
    count, row.len = count + 1, row.len + 1
    ids[count], row[row.len] = id, id
end
load_messages(ids)
for _, user in ipairs(users) do
    local row = rows[user]
    for from = 1, row.len, CHUNK do take_row(user, row, from, math.min(from + CHUNK - 1, row.len)) end
end
for _, id in ipairs(state_ids) do
    if messages[id] then write_states(id) end
end
if acked > 0 then
    call('XADD', prefix .. ':receipts', 'MAXLEN', '~', RECEIPTS_MAX, '*', 'by', ARGV[2],
        'acked', table.concat(told))
end
call_chunked(gone, 'ZREM', prefix .. ':due')
save_messages()
write_events(ARGV[3])
return {acked, #completed}
