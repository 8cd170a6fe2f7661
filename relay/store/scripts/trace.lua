-- trace.lua: returns the events of a notification in chronological order.
-- KEYS: stream. ARGV: prefix, notification id, its commit time in ms; optionally a user, and the retention of traces in
-- ms.
-- Returns {data or '', stream entry or '', trace, users with a pending acknowledgement, a stream entry that the
-- caller must read for the data and the route, or '', route or '', for a user the list of user_facts}.
local stream, prefix, id = KEYS[1], ARGV[1], ARGV[2]
local call = redis.call

local SCAN_MAX, SCAN_STEP, SCAN_BYTES, CLOCK_SKEW_MS, WAITING_MAX = 5000, 16, 8 * 1024 * 1024, 5000, 1000
-- include: large_entries.lua
-- include: pending_value.lua

local function field(entry, name)
    for i = 1, #entry[2], 2 do
        if entry[2][i] == name then return entry[2][i + 1] end
    end
end

-- What the store knows of the notification and one user, for `clairon why`.
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

local wanted = ''
local function entry_at(entry_id)
    if large_bytes(stream, entry_id) > STORE_COPIED_BYTES_MAX and has_entry(stream, entry_id) then
        wanted = entry_id
        return {entry_id, {}}
    end
    local entry = call('XRANGE', stream, entry_id, entry_id)[1]
    return entry and field(entry, 'id') == id and entry or nil
end

-- Ids have no index. A notification is stored soon after its commit, so the search starts at the
-- commit time. Large entries are not read.
local function search()
    local from, bytes, read = string.format('%.0f', math.max(tonumber(ARGV[3]) - CLOCK_SKEW_MS, 0)) .. '-0', 0, 0
    local large = next_large(stream, from)
    while read < SCAN_MAX and bytes < SCAN_BYTES do
        local rows = call('XRANGE', stream, from, large and '(' .. large.entry or '+', 'COUNT', SCAN_STEP)
        for _, entry in ipairs(rows) do
            if field(entry, 'id') == id then return entry end
            bytes, from = bytes + bytes_of(entry), '(' .. entry[1]
        end
        if #rows == 0 then
            local found = large and large.id == id and entry_at(large.entry)
            if found or not large then return found end
            from, large = '(' .. large.entry, next_large(stream, large.entry)
        end
        read = read + math.max(#rows, 1)
    end
end

local trace = call('LRANGE', prefix .. KEY_TRACE .. id, 0, -1)
local stored_events = {unpack(trace)}
local stored = trace[1] and trace[1]:match('^stored %d+ 0 (%d+%-%d+) ')
local pending = pending_entry(call('HGET', prefix .. KEY_PENDING, id) or '')
local entry = stored and entry_at(stored) or pending and entry_at(pending) or search()

-- The acks of a pending notification are in its state. The acks of a completed notification are in
-- `acked`.
local waiting, acks = {}, {}
local function read_states(key)
    local cursor = '0'
    repeat
        local page = call('HSCAN', key, cursor, 'COUNT', 500)
        cursor = page[1]
        for i = 1, #page[2], 2 do
            local user, state = page[2][i], page[2][i + 1]
            if state ~= '0' then
                acks[#acks + 1] = 'acked ' .. state .. ' 0 - ' .. user
            elseif #waiting < WAITING_MAX then
                waiting[#waiting + 1] = user
            end
        end
    until cursor == '0' or #waiting >= WAITING_MAX or #acks >= WAITING_MAX
end
read_states(prefix .. KEY_ACK .. id)
read_states(prefix .. KEY_ACKED .. id)

local first = pending or #acks > 0 and entry and entry[1] -- a pending one may have been removed from the stream
if #trace == 0 and first then trace[1] = 'stored ' .. first:match('^%d+') .. ' 0 ' .. first .. ' -' end
for _, event in ipairs(acks) do trace[#trace + 1] = event end
local rows = {}
for i, event in ipairs(trace) do rows[i] = {tonumber(event:match('^%S+ (%d+)')), i, event} end
table.sort(rows, function(a, b) return a[1] < b[1] or a[1] == b[1] and a[2] < b[2] end)
for i, row in ipairs(rows) do trace[i] = row[3] end
local facts = ARGV[4] and user_facts(id, ARGV[4], entry, stored_events, tonumber(ARGV[3]), tonumber(ARGV[5])) or {}
return {entry and field(entry, 'data') or '', entry and entry[1] or '', trace, waiting, wanted,
    entry and field(entry, 'route') or '', facts}
