-- add_notification.lua: adds notifications, and the users who must acknowledge them. Requires
-- notifications.lua and stream_entry.lua.
-- include: error_log.lua
-- include: audience.lua
-- include: staged.lua
-- The store does not roll back the writes of a failed script, so check everything before the first
-- write.

local added, now = 0, now_ms()
local claims, commits, ending, fresh, last_entry = {}, {}, {}, {}, ''
local after -- field of the first added notification; set by the including script
local covered = false -- field of the next added notification, unless it was prepared; nil: it was added

local function add_notification(id, route, data, ...)
    local fields, entry = {...}
    if after then
        fields[#fields + 1] = 'after'
        fields[#fields + 1] = after
        after = nil
    end
    if covered and prepared.id ~= id then
        fields[#fields + 1] = 'covered'
        fields[#fields + 1] = covered
        covered = nil
    end
    entry = add_entry(id, route, data, unpack(fields))
    last_entry = entry
    -- Not HSETNX: a load of the append-only file may execute a truncated transaction before this one (hello.lua), which then
    -- replaces its entry.
    if added == 0 and call('HEXISTS', prefix .. KEY_META, META_FIRST) == 0 then
        call('HSET', prefix .. KEY_META, META_FIRST, entry)
    end
    added = added + 1
    if route_flag(route, FRAME_UNDECODABLE) then
        log_entry(id, error_owner(route), 'undecodable', 0, '[]', prepared.parts ~= id and data or nil, route)
    end
    return entry
end

-- Makes an added notification pending for `count` users. Without users, its audience is open-ended.
local function add_pending(id, route, data, entry, expires, count, is_large)
    local commit, pending, times = commit_ms(route), pending_of(route)
    if times then
        pending.origin = receipts.add_state(id, count, is_large, data)
        receipts.add_escalations(id, '', commit, times)
    end
    if not claims[commit] then
        claims[commit] = {}
        commits[#commits + 1] = commit
    end
    claims[commit][#claims[commit] + 1] = entry
    pending.entry, pending.left = entry, count
    if is_large then pending.is_large = true end
    if count == 0 then pending.open_ended = expires end
    if expires > 0 then
        pending.expires = true
        ending[#ending + 1] = due_score.text(expires)
        ending[#ending + 1] = id .. ':'
    end
    fresh[#fresh + 1] = id
    fresh[#fresh + 1] = pending_value(pending)
end

-- Returns when an open-ended audience ends.
function prepared.open_end(route)
    local expires = expires_ms(route)
    return expires > 0 and expires or tonumber(prepared.open_ended) or now + STORE_OPEN_MS
end

-- Adds a notification that these users must acknowledge.
local function add_ack_required(id, route, data, users)
    local expires, entry = expires_ms(route)
    if #users == 0 then
        expires = prepared.open_end(route)
        entry = add_notification(id, route, data, 'open_ended', integer_text(expires))
    else
        entry = add_notification(id, route, data)
    end
    add_pending(id, route, data, entry, expires, #users, false)
    local score, key = score_text(entry), prefix .. KEY_ACK .. id
    if #users == 1 then
        call('ZADD', prefix .. KEY_PENDING_LIST .. users[1], score, id)
        call('HMSET', key, users[1], '0')
        return
    end
    local states = {}
    for i, user in ipairs(users) do
        states[2 * i - 1], states[2 * i] = user, '0'
        call('ZADD', prefix .. KEY_PENDING_LIST .. user, score, id)
    end
    call_chunked(states, 'HMSET', key)
end

-- Adds a notification whose users stage.lua has written, in a few commands: the hash of its users is
-- renamed, and the notification is in one pending list for all. Returns the number of users, or nil if they
-- are not staged.
local function add_staged(id, route, data)
    local staged = prefix .. KEY_STAGED .. id
    if call('HDEL', staged, STAGED_ALL) == 0 then return nil end
    local count = call('HLEN', staged)
    if count == 0 then
        add_ack_required(id, route, data, {})
        return 0
    end
    local entry, key = add_notification(id, route, data), prefix .. KEY_ACK .. id
    add_pending(id, route, data, entry, expires_ms(route), count, true)
    call('UNLINK', key)
    call('RENAME', staged, key)
    call('PERSIST', key)
    call('ZADD', prefix .. KEY_SHARED_PENDING_LIST, score_text(entry), id)
    return count
end

-- Writes the pending state of all added notifications, in few commands.
local function write_pending()
    for _, commit in ipairs(commits) do
        local entries = claims[commit]
        for from = 1, #entries, CHUNK do claim(entries, from, math.min(from + CHUNK - 1, #entries), commit) end
    end
    call_chunked(ending, 'ZADD', prefix .. KEY_DUE)
    call_chunked(fresh, 'HMSET', prefix .. KEY_PENDING)
end
