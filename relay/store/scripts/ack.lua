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
local ids, told, acked = {}, {}, 0

-- Acks of one user come in a row: one command for all of them.
local row_user, row, row_len = nil, {}, 0
local function end_row()
    if row_len > 0 then call('ZREM', prefix .. ':inbox:' .. row_user, unpack(row, 1, row_len)) end
    row_len = 0
end

local function take(user, id)
    if user ~= row_user or row_len == CHUNK then
        end_row()
        row_user = user
    end
    row_len = row_len + 1
    row[row_len] = id
    acked = acked + 1
    due_gone[#due_gone + 1] = id .. ':' .. user
    add_event(id, acked_now .. user)
    told[acked] = pack_text(user) .. id_len .. id
end

for at = FIRST, #ARGV, 2 do ids[#ids + 1] = ARGV[at + 1] end
load_messages(ids)
for at = FIRST, #ARGV, 2 do
    local user, id = ARGV[at], ARGV[at + 1]
    local message = messages[id]
    local key = prefix .. ':ack:' .. id
    local state = message and call('HGET', key, user)
    if state == '0' then
        take(user, id)
        message.left = message.left - 1
        if message.left <= 0 and not message.open then
            complete(id)
        else
            message_changed(id)
            call('HSET', key, user, now_text)
        end
    elseif message and not state and message.open and not is_given_up(id, user) then
        -- Before the report that it was shown, which comes by another relay: the ack wins.
        take(user, id)
        call('HSET', key, user, now_text)
    end
end
if acked > 0 then
    call('XADD', prefix .. ':receipts', 'MAXLEN', '~', RECEIPTS_MAX, '*', 'by', ARGV[2],
        'acked', table.concat(told))
end
end_row()
save_messages()
write_events(ARGV[3])
return {acked, #completed}
