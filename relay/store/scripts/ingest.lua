-- ingest.lua: stores a batch of frames and moves the slot's progress, in one step.
-- KEYS: stream, progress. ARGV: prefix, epoch, owner token, the position this batch follows, up to
-- where all WAL is done with after it ('': as before), records.
-- A record is its kind, its position, and
--   N: id, route, data                                     a note that needs no ack
--   A: id, route, data, audience, target count, targets    a note that needs acks
--   + or -: audience, target, user                         a membership begins or ends
--   C: nothing                                             a transaction is complete
-- Records at or below the progress are already stored and skipped.
-- Returns {position, notes added, records skipped, the last entry added or ''}.
local stream, progress = KEYS[1], KEYS[2]
local prefix = ARGV[1]
local call = redis.call
-- include: delivery.lua
-- include: copy.lua

-- A script that fails keeps what it wrote: all that can be wrong is looked at before the first write.
local function has_group()
    local groups = redis.pcall('XINFO', 'GROUPS', stream)
    for _, group in ipairs(groups.err and {} or groups) do
        if group[2] == 'clairon' then return true end
    end
    return false
end

local state = call('HMGET', progress, 'owner', 'position', 'read')
local position = state[2] or ''
if call('HGET', prefix .. ':meta', 'epoch') ~= ARGV[2] or not has_group() then
    return redis.error_reply('EPOCH the store was emptied, or its stream or group removed')
end
if state[1] ~= ARGV[3] then
    return redis.error_reply('FENCED another feed owns this slot now')
end
if position < ARGV[4] then
    return redis.error_reply('BEHIND ' .. position)
end

local OPEN_MS = 24 * 3600 * 1000 -- an open audience without expiration waits so long
local at, added, skipped, now = 6, 0, 0, now_ms()
local claims, ending, last_entry = {}, {}, ''

local function users_of(audience, targets)
    local users, seen = {}, {}
    local function add(user)
        if not seen[user] then
            seen[user] = true
            users[#users + 1] = user
        end
    end
    for _, target in ipairs(targets) do
        if audience == 'USER' then
            add(target)
        else
            for _, user in ipairs(call('SMEMBERS', prefix .. ':members:' .. audience .. ':' .. target)) do
                add(user)
            end
        end
    end
    return users
end

local function add_note(...)
    local id = ARGV[at + 2]
    local entry = call('XADD', stream, '*', 'id', id, 'route', ARGV[at + 3], 'data', ARGV[at + 4], ...)
    last_entry = entry
    if added == 0 then call('HSETNX', prefix .. ':meta', 'first', entry) end
    added = added + 1
    if math.floor(ARGV[at + 3]:byte(8) / 4) % 2 == 1 then -- FRAME_UNDECODABLE
        log_entry(id, 'undecodable', 0, '[]', ARGV[at + 4], ARGV[at + 3])
    end
    return id, entry
end

-- A note that needs acks, from these users; from none: from whoever is shown it, until it ends.
local function add_awaited(users)
    local ends, entry, id = math.floor(byte_at(ARGV[at + 3], 48, 8) / 1000)
    if #users == 0 then
        if ends == 0 then ends = now + OPEN_MS end
        id, entry = add_note('open', whole(ends))
    else
        id, entry = add_note()
    end
    claims[#claims + 1] = entry
    messages[id] = {entry = entry, left = #users, open = #users == 0 and ends or nil,
        ends = ends > 0, tried = false}
    message_changed(id)
    if ends > 0 then
        ending[#ending + 1] = whole(ends)
        ending[#ending + 1] = id .. ':'
    end
    local score, states = score_of(entry), {}
    for i, user in ipairs(users) do
        states[2 * i - 1], states[2 * i] = user, '0'
        call('ZADD', prefix .. ':inbox:' .. user, score, id)
    end
    call_chunked(states, 'HMSET', prefix .. ':ack:' .. id)
end

-- What is the same command for all of them.
local function finish_awaited()
    for from = 1, #claims, CHUNK do
        local words = {'XCLAIM', stream, 'clairon', 'relay', 0}
        for i = from, math.min(from + CHUNK - 1, #claims) do words[#words + 1] = claims[i] end
        words[#words + 1] = 'FORCE'
        words[#words + 1] = 'JUSTID'
        call(unpack(words))
    end
    call_chunked(ending, 'ZADD', prefix .. ':due')
    save_messages()
end

local function change_member(kind, audience, target, user)
    local verb = kind == '+' and 'SADD' or 'SREM'
    call(verb, prefix .. ':members:' .. audience .. ':' .. target, user)
    call(verb, prefix .. ':groups:' .. user, audience .. ':' .. target)
    call('XADD', prefix .. ':control', 'MAXLEN', '~', 10000, '*',
        'change', kind, 'audience', audience, 'target', target, 'user', user)
end

while ARGV[at] do
    local kind, fresh = ARGV[at], ARGV[at + 1] > position
    if fresh then position = ARGV[at + 1] else skipped = skipped + 1 end
    if kind == 'N' then
        if fresh then add_note() end
        at = at + 5
    elseif kind == 'A' then
        local count = tonumber(ARGV[at + 6])
        if fresh then
            local targets = {}
            for i = 1, count do targets[i] = ARGV[at + 6 + i] end
            add_awaited(users_of(ARGV[at + 5], targets))
        end
        at = at + 7 + count
    elseif kind == 'C' then
        at = at + 2
    else
        if fresh then change_member(kind, ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]) end
        at = at + 5
    end
end
finish_awaited()
call('HSET', progress, 'position', position)
if ARGV[5] > (state[3] or '') then call('HSET', progress, 'read', ARGV[5]) end
return {position, added, skipped, last_entry}
