-- nack.lua: defers retries for a user, at least by the backoff.
-- KEYS: stream. ARGV: prefix, backoff base, backoff cap, delay, retention of traces (all in ms), user,
-- notification ids.
-- Returns the number of ids that are pending for this user and will be retried.
local stream, prefix = KEYS[1], ARGV[1]
local call = redis.call
-- include: delivery.lua
-- include: stream_entry.lua

local base, cap, user = tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[6]
local delay, now, deferred = math.min(tonumber(ARGV[4]), cap), now_ms(), 0

for at = 7, #ARGV do
    local id = ARGV[at]
    -- Only a delivered notification has a due time.
    local due = call('HGET', prefix .. KEY_ACK .. id, user) == '0'
        and tonumber(call('ZSCORE', prefix .. KEY_DUE, id .. ':' .. user) or nil)
    local notification = due and notification_of(id)
    if notification and notification.backoff ~= '-' then
        local retries = delivered_retries(call('HGET', prefix .. KEY_RETRIES .. id, user))
        local wait = math.max(delay, backoff_ms(notification.backoff, retries, id, base, cap))
        -- A due time set by a nack has a fraction of 0.5 ms. Only a later time replaces it.
        if due % 1 ~= 0.5 or due < now + wait then
            call('ZADD', prefix .. KEY_DUE, string.format('%.1f', now + wait + 0.5), id .. ':' .. user)
        end
        record_event(id, 'nacked', integer_text(now), retries, integer_text(wait), user)
        deferred = deferred + 1
    end
end
write_events(ARGV[5])
return deferred
