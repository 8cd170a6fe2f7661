-- web_push.lua: the queue of Web Pushes. Requires `call`, `prefix` and notifications.lua.

-- The queue outlives the expiration of its notifications, or a day without one, by this time.
local WEB_PUSH_SLACK_MS, WEB_PUSH_TTL_MS = 3600000, 86400000

-- Returns the urgency of a notification's Web Push: the priority.
local function web_push_urgency(route)
    return ({'high', 'normal', 'low'})[1 + route_number(route, FRAME_NOTIFICATION_AT_PRIORITY, FRAME_NOTIFICATION_AT_TYPE)]
end

-- Adds members and scores to a sorted set that lives at least as long as they do.
local function add_scores(name, items, lifetime)
    call_chunked(items, 'ZADD', prefix .. name)
    if call('PTTL', prefix .. name) < lifetime then call('PEXPIRE', prefix .. name, integer_text(lifetime)) end
end

-- Adds users to the queue, whose Web Push of a notification is due at this time.
local function queue_web_pushes(id, users, due, lifetime)
    local items = {}
    for i, user in ipairs(users) do
        items[2 * i - 1], items[2 * i] = integer_text(due), id .. ':' .. user
    end
    add_scores(KEY_WEB_PUSH_DUE, items, lifetime)
end

-- Adds a Web Push of a notification for each user, due at this time. `users` nil: the users of a large audience, whom
-- stage.lua has written; lease_web_pushes.lua moves them into the queue in steps.
-- A user who is present between `since` and the time of sending receives none: since the commit, or since now if the
-- notification is stored later than the delay, or escalated.
local function add_web_pushes(id, text, urgency, route, users, due, needs_ack)
    local staged = prefix .. KEY_WEB_PUSH_USERS .. id
    local count = users and #users or call('SCARD', staged)
    if count == 0 then return end
    local commit, expires, now = commit_ms(route), expires_ms(route), now_ms()
    local ends = expires > 0 and expires or commit + WEB_PUSH_TTL_MS
    local lifetime = math.max(ends, due) - now + WEB_PUSH_SLACK_MS
    local is_late = due <= now or now - commit > due - now
    call('HMSET', prefix .. KEY_WEB_PUSH .. id, 'text', text, 'urgency', urgency, 'commit', integer_text(commit), 'since',
        integer_text(is_late and now or commit), 'expires', integer_text(expires), 'needs_ack', needs_ack and '1' or '',
        'left', integer_text(count))
    call('PEXPIRE', prefix .. KEY_WEB_PUSH .. id, integer_text(lifetime))
    add_scores(KEY_WEB_PUSH_COMMITS, {integer_text(commit), id}, lifetime)
    if users then
        queue_web_pushes(id, users, due, lifetime)
    else
        call('PEXPIRE', staged, integer_text(lifetime))
        add_scores(KEY_WEB_PUSH_LARGE, {integer_text(due), id}, lifetime)
    end
end

-- Ends a user's Web Push of a notification.
local function end_web_push(id, user)
    local key = prefix .. KEY_WEB_PUSH .. id
    if call('ZREM', prefix .. KEY_WEB_PUSH_DUE, id .. ':' .. user) == 0 then return end
    call('HDEL', key, 'state ' .. user)
    if call('HINCRBY', key, 'left', -1) <= 0 then
        call('UNLINK', key)
        call('ZREM', prefix .. KEY_WEB_PUSH_COMMITS, id)
    end
end
