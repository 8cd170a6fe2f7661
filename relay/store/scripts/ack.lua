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
local id_len = pack_text(('x'):rep(36)):sub(1, 2)
local told, gone, acked = {}, {}, 0
local states, state_ids = {}, {} -- what is to be written of messages that are not complete

local function write_states(id)
    if not states[id] then return end
    call_chunked(states[id], 'HMSET', prefix .. ':ack:' .. id)
    states[id] = nil
end

local function take(id, message, row)
    acked = acked + 1
    gone[acked] = id .. row.tail
    told[3 * acked - 2], told[3 * acked - 1], told[3 * acked] = row.packed, id_len, id
    add_event(id, row.event)
    message.left = message.left - 1
    if message.left <= 0 and not message.open then return complete(id) end
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

-- Acks of one user come in a row: what they take from his inbox was waited for.
local function take_row(user, ids, count)
    local removed = call('ZREM', prefix .. ':inbox:' .. user, unpack(ids, 1, count))
    local row = {user = user, tail = ':' .. user, packed = pack_text(user),
        event = 'acked ' .. now_text .. ' 0 - ' .. user}
    local take_one = removed == count and take or take_unlisted
    for i = 1, count do
        local message = messages[ids[i]]
        if message then take_one(ids[i], message, row) end
    end
end

local ids = {}
for at = FIRST, #ARGV, 2 do ids[(at - FIRST) / 2 + 1] = ARGV[at + 1] end
load_messages(ids)
local row_user, row, row_len = ARGV[FIRST], {}, 0
for at = FIRST, #ARGV, 2 do
    if ARGV[at] ~= row_user or row_len == CHUNK then
        take_row(row_user, row, row_len)
        row_user, row_len = ARGV[at], 0
    end
    row_len = row_len + 1
    row[row_len] = ARGV[at + 1]
end
if row_len > 0 then take_row(row_user, row, row_len) end
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
