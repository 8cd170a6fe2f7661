-- redrive.lua: sends the notification of a dead letter to its users again, from attempt 0.
-- KEYS: stream. ARGV: prefix, entry of the error log, notification id, route, data, expiration in
-- ms or 0, retention of traces in ms; if the data are large, the bytes of route and data, otherwise ''; the fields
-- `retry_users` and `open_ended` of the prepared stream entry (prepared.lua), or ''; users (none: all users of the error
-- log entry). Of large data, only the start is in the arguments.
-- Returns the number of users with a pending acknowledgement, -1 if the error log entry does not
-- exist, or -2 if it has no users. If the data are large, and not prepared, returns these two fields: the caller calls the
-- script again with them, after XADD in the same transaction.
local stream, prefix = KEYS[1], ARGV[1]
local call = redis.call
-- include: notifications.lua
-- include: stream_entry.lua
-- include: group.lua
-- include: error_log.lua
-- include: prepared.lua

local is_large, prepared_users = (ARGV[8] or '') ~= '', prepared.unpack_users(ARGV[9] or '')
if #prepared_users > 0 then prepared.begin(ARGV[8], ARGV[3], true) end
-- In a cluster, this node may have only some of the shard's keys.
if call('EXISTS', prefix .. KEY_META) == 0 or not has_group() then
    return prepared.reject(redis.error_reply('EPOCH the store was emptied, or its stream or group removed'))
end
local id, expires, now = ARGV[3], tonumber(ARGV[6]), now_ms()
local logged = call('XRANGE', errors, ARGV[2], ARGV[2])[1]
if not logged then return prepared.reject(-1) end

local fields = fields_of(logged)

-- Returns the notification's score in pending lists: the score of its first stream entry, if known.
local function pending_score(notification)
    local stored = call('LINDEX', prefix .. KEY_TRACE .. id, 0)
    local entry = stored and stored:match('^stored %d+ 0 (%d+%-%d+) ')
    return score_text(entry or first_entry(id, notification))
end

local named = #ARGV > 10 and {unpack(ARGV, 11)} or cjson.decode(fields.users or '[]')
if prepared.entry then named = prepared_users end
if #named == 0 then return prepared.reject(-2) end
-- Omits users who have acknowledged the notification meanwhile.
local users = {}
for _, user in ipairs(named) do
    local state = call('HGET', prefix .. KEY_ACK .. id, user)
    if not state or state == '0' then users[#users + 1] = user end
end
if #users > 0 then
    -- If the notification is pending for other users, its stream entry is replaced.
    local pending = notification_of(id)
    local found = {id = id, route = ARGV[4], data = not is_large and ARGV[5] or nil, entry = pending and pending.entry}
    if pending and pending.open_ended then
        found.open_ended = integer_text(expires > 0 and expires or pending.open_ended)
    end
    if is_large and not (prepared.entry and ARGV[10] == (found.open_ended or '')) then
        return prepared.reject({pack_users(users), found.open_ended or ''})
    end
    replace_entry(found, 0, users)
    local key, notification = prefix .. KEY_ACK .. id, notifications[id]
    local score = pending_score(notification)
    notification.open_ended, notification.expires = notification.open_ended and tonumber(found.open_ended), notification.expires or expires > 0
    local kind, times = receipts.of_route(ARGV[4])
    if kind and not pending then receipts.reopen_notification(id, ARGV[5]) end
    for _, user in ipairs(users) do
        if call('HSET', key, user, '0') == 1 then
            notification.left = notification.left + 1
            if kind then
                receipts.reopen_pair(id, user, fields.reason)
                receipts.add_escalations(id, user, now, times)
            end
        end
        call('HDEL', prefix .. KEY_RETRIES .. id, user)
        call('ZREM', prefix .. KEY_DUE, id .. ':' .. user)
        if not notification.is_large then call('ZADD', prefix .. KEY_PENDING_LIST .. user, 'NX', score, id) end
        record_event(id, 'redriven', integer_text(now), 0, '-', user)
    end
    if expires > 0 then call('ZADD', prefix .. KEY_DUE, due_score.text(expires), id .. ':') end
end
prepared.discard()
remove_error(id, owner_of(fields), ARGV[2])
save_notifications()
write_events(ARGV[7])
return #users
