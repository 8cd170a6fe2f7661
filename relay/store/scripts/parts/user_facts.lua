-- user_facts.lua: what the store knows of a notification and one user, for `clairon why`. Requires `call`, `stream`,
-- `prefix`, `field` and large_entries.lua (route.lua).
-- include: audience.lua
-- include: recipients.lua

local TRACE_FULL, TARGETS_MAX, OWNERS_MAX, ERRORS_MAX = 512, 1000, 64, 1000
local ERROR_BEFORE_MS, ERROR_AFTER_MS = 1000, 60000

-- Returns '1' if the user is in a group of the audience now, '0', or '' if it is unknown.
local function is_member_now(route, user)
    local audience, count, targets = targets_of(route)
    if audience == '' or audience == 'USER' or audience == 'ALL' or count > TARGETS_MAX then return '' end
    local kinds, at = kinds_of(audience), 1
    while at < #targets do
        local target, next_at = target_at(targets, at)
        local keys, is_member = member_keys(audience, kinds, target), true
        for _, key in ipairs(keys or {}) do is_member = is_member and call('SISMEMBER', key, user) == 1 end
        if keys and is_member then return '1' end
        at = next_at
    end
    return '0'
end

-- Returns '1' if an entry of the error log names the user, '0', or '' if it is unknown. The entry was added when the pair
-- ended, at `ended_ms`.
local function is_in_error_log(id, user, ended_ms)
    local from = string.format('%.0f', math.max(ended_ms - ERROR_BEFORE_MS, 0))
    local to, is_whole = string.format('%.0f', ended_ms + ERROR_AFTER_MS), true
    local owners = call('ZRANGE', prefix .. KEY_ERROR_OWNERS, 0, OWNERS_MAX)
    if #owners > OWNERS_MAX then is_whole = false end
    for _, owner in ipairs(owners) do
        local rows = call('XRANGE', prefix .. KEY_ERROR_INDEX .. owner, from, to, 'COUNT', ERRORS_MAX)
        if #rows == ERRORS_MAX then is_whole = false end
        for _, row in ipairs(rows) do
            local entry = field(row, 'id') == id and call('XRANGE', prefix .. KEY_ERRORS, row[1], row[1])[1]
            for _, named in ipairs(entry and cjson.decode(field(entry, 'users') or '[]') or {}) do
                if named == user then return '1' end
            end
        end
    end
    return is_whole and '0' or ''
end

-- Returns the number of relays to which the user is connected. A shard knows only its users; shard 0 knows all.
local function connected_relays(user, now)
    local count = 0
    for _, relay in ipairs(call('ZRANGEBYSCORE', prefix .. KEY_RELAYS, string.format('%.0f', now - STORE_PRESENCE_MS), '+inf')) do
        count = count + call('SISMEMBER', prefix .. KEY_PRESENCE .. relay, user)
    end
    return count
end

-- True if a user without a pair never had one: no event of a pair can have been removed. An event expires after the
-- retention of traces at the earliest. Until then, a pair is in KEY_ACK, or its end is in the trace or in KEY_ACKED. An event
-- `forgotten` replaces those of a user who was erased.
local function knows_all_pairs(pending, trace, commit, now, retention)
    if #trace >= TRACE_FULL then return false end
    for _, event in ipairs(trace) do
        if event:find('^forgotten ') then return false end
    end
    if now < commit + retention then return pending ~= '' or #trace > 0 end
    return pending ~= '' and not is_retried_value(pending) -- an exhausted pair had a retry
end

-- Returns a list: state of the pair ('0', time of the ack in ms, or ''), '1' if all pairs are known, '1' if the audience is
-- open-ended ('0' or '': unknown), delivered retries, relays, member now, error log, '1' if the notification is pending;
-- then the gaps that connections of the user received.
local function user_facts(id, user, entry, events, commit, retention)
    local now = redis.call('TIME')[1] * 1000
    local pending = call('HGET', prefix .. KEY_PENDING, id) or ''
    local state = call('HGET', prefix .. KEY_ACK .. id, user) or call('HGET', prefix .. KEY_ACKED .. id, user) or ''
    local open_ended, ended_ms = '', nil
    if pending ~= '' then
        open_ended = pending:find(' o%d') and '1' or '0'
    elseif entry and field(entry, 'route') then
        open_ended = field(entry, 'open_ended') and '1' or '0'
    end
    for _, event in ipairs(events) do
        local ms, of = event:match('^errored (%d+) %S+ %S+ (.*)$')
        if of == user then ended_ms = tonumber(ms) end
    end
    local facts = {state, knows_all_pairs(pending, events, commit, now, retention) and '1' or '', open_ended,
        call('HGET', prefix .. KEY_RETRIES .. id, user) or '', tostring(connected_relays(user, now)),
        is_member_now(entry and field(entry, 'route'), user), ended_ms and is_in_error_log(id, user, ended_ms) or '0',
        pending ~= '' and '1' or ''}
    for _, gap in ipairs(call('LRANGE', prefix .. KEY_GAPS .. user, 0, -1)) do facts[#facts + 1] = gap end
    return facts
end
