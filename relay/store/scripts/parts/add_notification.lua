-- add_notification.lua: adds notifications, and the users who must acknowledge them. Requires
-- delivery.lua and stream_entry.lua.
-- The store does not roll back the writes of a failed script, so check everything before the first
-- write.

local added, now = 0, now_ms()
local claims, commits, ending, fresh, last_entry = {}, {}, {}, {}, ''
local after -- field of the first added notification; set by the including script

-- Splits a composite audience, or its target, at each + that is not preceded by a backslash.
local function parts_of(text)
    local parts, part, from = {}, '', 1
    while true do
        local at = text:find('[+\\]', from)
        part = part .. text:sub(from, (at or 0) - 1)
        if not at then break end
        if text:sub(at, at) == '+' then
            parts[#parts + 1], part, from = part, '', at + 1
        else
            part, from = part .. text:sub(at + 1, at + 1), at + 2
        end
    end
    parts[#parts + 1] = part
    return parts
end

-- Returns the users who are members of all parts.
local function users_of_parts(kinds, target)
    local keys, parts = {}, parts_of(target)
    if #parts ~= #kinds then return {} end
    for i, kind in ipairs(kinds) do keys[i] = prefix .. KEY_MEMBERS .. kind .. ':' .. parts[i] end
    return call('SINTER', unpack(keys))
end

local function users_of(audience, targets)
    if audience == 'USER' and #targets == 1 then return targets end -- the typical case
    local users, seen = {}, {}
    local function add(user)
        if not seen[user] then
            seen[user] = true
            users[#users + 1] = user
        end
    end
    local kinds = audience:find('+', 1, true) and parts_of(audience)
    for _, target in ipairs(targets) do
        if audience == 'USER' then
            add(target)
        elseif kinds then
            for _, user in ipairs(users_of_parts(kinds, target)) do add(user) end
        else
            for _, user in ipairs(call('SMEMBERS', prefix .. KEY_MEMBERS .. audience .. ':' .. target)) do
                add(user)
            end
        end
    end
    return users
end

local function add_notification(id, route, data, ...)
    local entry
    if after then
        entry = add_entry('id', id, 'route', route, 'data', data, 'after', after, ...)
        after = nil
    else
        entry = add_entry('id', id, 'route', route, 'data', data, ...)
    end
    last_entry = entry
    if added == 0 then call('HSETNX', prefix .. KEY_META, 'first', entry) end
    added = added + 1
    if route_flag(route, FRAME_UNDECODABLE) then
        log_entry(id, 'undecodable', 0, '[]', data, route)
    end
    return entry
end

-- Adds a notification that these users must acknowledge. An audience without users is open-ended.
local function add_ack_required(id, route, data, users)
    local ends, entry = expires_ms(route)
    if #users == 0 then
        if ends == 0 then ends = now + STORE_OPEN_MS end
        entry = add_notification(id, route, data, 'open_ended', integer_text(ends))
    else
        entry = add_notification(id, route, data)
    end
    local commit = commit_ms(route)
    if not claims[commit] then
        claims[commit] = {}
        commits[#commits + 1] = commit
    end
    claims[commit][#claims[commit] + 1] = entry
    fresh[#fresh + 1] = id
    fresh[#fresh + 1] = entry .. ' ' .. count_text(#users) .. (#users == 0 and ' ' .. integer_text(ends) or ' -') ..
        ' ' .. flags_text((ends > 0 and 2 or 0) + backoff_flags(route))
    if ends > 0 then
        ending[#ending + 1] = integer_text(ends)
        ending[#ending + 1] = id .. ':'
    end
    local score, key = score_of(entry), prefix .. KEY_ACK .. id
    if #users == 1 then
        call('ZADD', prefix .. KEY_INBOX .. users[1], score, id)
        call('HMSET', key, users[1], '0')
        return
    end
    local states = {}
    for i, user in ipairs(users) do
        states[2 * i - 1], states[2 * i] = user, '0'
        call('ZADD', prefix .. KEY_INBOX .. user, score, id)
    end
    call_chunked(states, 'HMSET', key)
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
