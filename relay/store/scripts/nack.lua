-- nack.lua: delays retries for a user, at least by the backoff.
-- KEYS: stream. ARGV: prefix, backoff base, backoff cap, delay, retention of traces (all in ms), user,
-- notification ids.
-- Returns the number of ids that are pending for this user and will be retried.
local stream, prefix = KEYS[1], ARGV[1]
local call = redis.call
-- include: notifications.lua
-- include: stream_entry.lua

local base, cap, user = tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[6]
local delay, now, delayed = math.min(tonumber(ARGV[4]), cap), now_ms(), 0

for at = 7, #ARGV do
    local id = ARGV[at]
    -- Only a delivered notification has a due time.
    local due = call('HGET', prefix .. KEY_ACK .. id, user) == '0'
        and tonumber(call('ZSCORE', prefix .. KEY_DUE, id .. ':' .. user) or nil)
    local notification = due and notification_of(id)
    if notification and notification.backoff ~= '-' then
        local retries = delivered_retries(call('HGET', prefix .. KEY_RETRIES .. id, user))
        local wait = math.max(delay, due_score.backoff_ms(notification, id, retries, base, cap))
        -- A nack replaces an ack timeout, but not a later nack.
        if not due_score.has(due, due_score.NACKED) or due < now + wait then
            call('ZADD', prefix .. KEY_DUE, due_score.text(now + wait, due_score.NACKED), id .. ':' .. user)
        end
        record_event(id, 'nacked', integer_text(now), retries, integer_text(wait), user)
        delayed = delayed + 1
    end
end
write_events(ARGV[5])
return delayed
