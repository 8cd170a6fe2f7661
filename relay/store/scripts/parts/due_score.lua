-- due_score.lua: the scores of KEY_DUE: times in ms. A member is a pair, `id:user`, or a notification
-- that expires, `id:`. The fraction of a score is what it means:
--
--   fraction    of a pair                                       of a notification
--   none        its ack timeout and the backoff end             it expires
--   SUSPENDED   the same, but the user was absent at the retry
--   NACKED      the delay of a nack ends
--   POSTPONED   as its notification                             its expiration was postponed
--   THROTTLED   the next free time of its table owner
local due_score
due_score = {
    SUSPENDED = 0.25, NACKED = 0.5, POSTPONED = 0.5, THROTTLED = 0.75,

    text = function(ms, fraction)
        if not fraction then return string.format('%.0f', ms) end
        return string.format('%.2f', math.floor(ms) + fraction)
    end,

    has = function(score, fraction) return score % 1 == fraction end,

    -- Nobody received a retry that was suspended or throttled.
    has_running_timeout = function(score)
        return not due_score.has(score, due_score.SUSPENDED) and not due_score.has(score, due_score.THROTTLED)
    end,

    -- Returns the backoff before retry `retries` + 1. The jitter is the same for all users of a
    -- notification, so that they share the stream entry of the retry.
    backoff_ms = function(notification, id, retries, base, cap)
        local kind, wait = notification.backoff, base
        if kind == 'E' then wait = base * 2 ^ math.min(retries, 40) end
        if kind == 'L' then wait = base * (retries + 1) end
        local jitter = (tonumber(id:sub(-4), 16) * (retries + 1) * 7919) % 1000 / 5000
        return math.floor(math.min(wait * (1 + jitter), cap))
    end,

    -- Returns the score of a pair that is delivered, or suspended, at `now`. `timeout` is the
    -- configured ack timeout.
    of_delivery = function(notification, id, retries, now, timeout, base, cap, fraction)
        local backoff = due_score.backoff_ms(notification, id, retries, base, cap)
        return due_score.text(now + (notification.ack_timeout and tonumber(notification.ack_timeout) or timeout) + backoff, fraction)
    end,
}
