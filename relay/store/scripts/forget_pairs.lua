-- forget_pairs.lua: ends pending pairs of a user, as forgotten. Neither traces nor relays learn the name.
-- KEYS: stream. ARGV: prefix, user, retention of traces in ms, score after which to continue, '-inf' at the start.
-- Returns {number of pairs that ended, score after which the next call continues, '' at the end}.
local stream, prefix, user = KEYS[1], ARGV[1], ARGV[2]

-- The entries with the receipts of these pairs name no other user.
local receipt_entries = {}
local function call(...)
    local reply, command, key = redis.call(...), ...
    if command == 'XADD' and key == prefix .. KEY_RECEIPTS then receipt_entries[#receipt_entries + 1] = reply end
    return reply
end
-- include: notifications.lua
-- include: pending_list.lua
-- include: forgotten.lua

local PAIRS_MAX = 25
local now_text, ended, ids = integer_text(now_ms()), 0, {}

local function forget_pair(id, notification)
    receipts.record_ended(id, user, 'forgotten', tonumber(now_text))
    record_event(id, 'forgotten', now_text, 0, '-', '')
    call('HDEL', prefix .. KEY_ACK .. id, user)
    notification.left = notification.left - 1
    mark_changed(id)
    if notification.left <= 0 and not notification.open_ended then complete(id) end
    for level = 1, FRAME_ESCALATIONS do receipts.remove_escalation(receipts.escalation_member(level, id, user)) end
    ended = ended + 1
end

-- A full store accepts the writes after one that frees memory.
call('HDEL', prefix .. KEY_META, '')
local rows, more = pending_list(ARGV[4], '+inf', PAIRS_MAX)
for _, row in ipairs(rows) do ids[#ids + 1] = row.id end
load_notifications(ids, 1)
for _, id in ipairs(ids) do
    local notification = notification_of(id)
    if notification and call('HGET', prefix .. KEY_ACK .. id, user) == '0' then forget_pair(id, notification) end
    due_to_remove[#due_to_remove + 1] = id .. ':' .. user
    call('ZREM', prefix .. KEY_PENDING_LIST .. user, id)
end
save_notifications()
write_events(ARGV[3])
for _, entry in ipairs(receipt_entries) do forgotten.add('r', entry, 0) end
return {ended, more and #rows > 0 and rows[#rows].score or ''}
