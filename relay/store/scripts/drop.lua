-- drop.lua: ends the pending pairs of notifications, as dropped. Unlike an expiration it adds no entry
-- to the error log.
-- KEYS: stream. ARGV: prefix, retention of traces in ms, notification ids.
-- Returns {1 if the last result is not complete, results}, with a result for each id, up to PAIRS_MAX
-- pairs: the number of pairs that ended, -1 if the notification was not pending, but has a trace, or
-- -2 if it is unknown. The caller continues with the id that is not complete, or has no result.
local stream, prefix = KEYS[1], ARGV[1]
local call = redis.call
-- include: notifications.lua
-- include: stream_entry.lua
-- include: end_pairs.lua

-- A notification costs as much as NOTIFICATION_PAIRS pairs of a large audience.
local PAIRS_MAX, NOTIFICATION_PAIRS = 500, 10

local function drop_pairs(id, users)
    for from = 1, #users, CHUNK do
        local last = math.min(from + CHUNK - 1, #users)
        local retries = call('HMGET', prefix .. KEY_RETRIES .. id, unpack(users, from, last))
        for i = from, last do
            end_pair(id, users[i], 'dropped', delivered_retries(retries[i - from + 1]), '-')
        end
    end
end

-- Returns the result of a notification, the number of its users in this call, and whether it is complete.
local function drop(id)
    if not notification_of(id) then return call('EXISTS', prefix .. KEY_TRACE .. id) - 2, 0, true end
    local users, dropped, is_complete = end_notification(id, PAIRS_MAX, function(pending) drop_pairs(id, pending) end)
    if users == 0 then record_event(id, 'dropped', end_text, 0, '-', '') end
    return dropped, users, is_complete
end

local pairs_left, reply, dropped = PAIRS_MAX, {0}, 0
for at = 3, #ARGV do
    local result, users, is_complete = drop(ARGV[at])
    reply[#reply + 1] = result
    dropped = dropped + math.max(result, 0)
    pairs_left = pairs_left - users - NOTIFICATION_PAIRS
    if not is_complete then reply[1] = 1 end
    if not is_complete or pairs_left <= 0 then break end
end
-- The command is another process than the relays: count_pending.lua returns the number to the feed.
if dropped > 0 then call('HINCRBY', prefix .. KEY_DENIED, 'd', dropped) end
save_notifications()
write_ended_pairs()
write_events(ARGV[2])
return reply
