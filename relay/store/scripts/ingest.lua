-- ingest.lua: stores a batch of frames and advances the slot's progress, in one step.
-- KEYS: stream, progress. ARGV: prefix, epoch, owner token, the position that this batch follows,
-- the LSN before which all WAL is processed ('': unchanged), dependencies on other shards for the
-- first added stream entry ('': none), pairs that a table owner may add per minute, delay of Web Pushes
-- in ms ('': none are sent), records.
-- A record contains its kind, its position, and:
--   N: id, route, data                                     a notification without acks
--   A: id, route, data, audience, target count, targets    a notification with acks
--   W: as A                                                a notification without acks, with Web Pushes
--   R: id, route, audience, target count, targets          a notification too large for the store
--   + or -: audience, target, user, transaction id or 0    a membership is added or removed
--   L: source, rule, transaction id or 0                   the rows of a live rule changed, without notifications
--   C: nothing                                             the end of a transaction
-- The first record, of one of the kinds N to P, may follow these arguments: E, the bytes of its route and data, and the end
-- of an open-ended audience in ms, or ''. Then the same transaction has added its stream entry (prepared.lua), and the record
-- has only the start of the data.
-- Records at or below the progress are already stored and are skipped.
-- A call adds STORE_PAIRS_MAX pairs at most. If the audience of a record A or W is larger, the caller
-- stages its users (stage.lua) and sends the batch again with the kind S, instead of W with P:
--   S or P: as A                                           a notification whose users are staged
-- Returns {position, added notifications, skipped records, last added stream entry or ''}. If the
-- batch is not complete, also the index of the next record, from 0, and 1 if its users must be
-- staged, and the end of the open-ended audience of that record: its prepared stream entry must have it, or not if it is ''.
-- Until then, later batches are answered with WAIT.
local stream, progress = KEYS[1], KEYS[2]
local prefix = ARGV[1]
local call = redis.call
local FIRST, owner = 9, ARGV[3]
local state = call('HMGET', progress, 'owner', 'position:' .. owner, 'read:' .. owner, 'partial:' .. owner,
    'timeline')
local position = state[2] or ''
local meta = call('HMGET', prefix .. KEY_META, META_EPOCH, META_COPYING, META_FIRST)
local read = ARGV[5] > (state[3] or '') and ARGV[5]
-- include: lone_notification.lua
local reply = store_lone_notification()
if reply then return reply end
-- include: notifications.lua
-- include: stream_entry.lua
-- include: group.lua
-- include: add_notification.lua
-- include: prepared.lua
local OWNER_PAIRS = tonumber(ARGV[7])
-- include: owner_pairs.lua

local push_delay = tonumber(ARGV[8])
if ARGV[FIRST] == 'E' then
    prepared.open_ended, FIRST = ARGV[FIRST + 2], FIRST + 3
    local bytes, id, route = ARGV[FIRST - 2], ARGV[FIRST + 2], ARGV[FIRST + 3]
    prepared.begin(bytes, id, true, route_flag(route, FRAME_UNDECODABLE))
end

if meta[1] ~= ARGV[2] or not has_group() then
    return prepared.reject(redis.error_reply('EPOCH the store was emptied, or its stream or group removed'))
end
if state[1] ~= owner then
    return prepared.reject(redis.error_reply('FENCED another feed owns this slot now'))
end
if position < ARGV[4] then
    return prepared.reject(state[4] and 'WAIT' or redis.error_reply('BEHIND ' .. position))
end

local at, skipped = FIRST, 0
if ARGV[6] ~= '' then after = ARGV[6] end

-- include: control_stream.lua
-- include: covered.lua

local function change_member(kind, audience, target, user, xid)
    local verb = kind == '+' and 'SADD' or 'SREM'
    call(verb, prefix .. KEY_MEMBERS .. audience .. ':' .. target, user)
    call(verb, prefix .. KEY_GROUPS .. user, audience .. ':' .. target)
    add_change('change', kind, 'audience', audience, 'target', target, 'user', user, 'xid', xid)
end

local function targets_at(from, count)
    local targets = {}
    for i = 1, count do targets[i] = ARGV[from + i - 1] end
    return targets
end

local pairs_left, is_partial, must_stage = STORE_PAIRS_MAX, false, 0
-- True if the notification must be left to the next call.
local function is_beyond_limit(size)
    if size > STORE_PAIRS_MAX then must_stage = 1 end
    is_partial = size > pairs_left
    pairs_left = pairs_left - size
    return is_partial
end

local push, HAS_NOTIFICATION, ADD_STAGED
-- A script may have 200 local names, so these of web_push.lua are in a block.
do
-- include: web_push.lua
    -- Adds the Web Pushes of an added notification. `users` nil: they are staged.
    function push(id, route, users, needs_ack)
        local text = push_delay and web_push_text(route)
        if text then add_web_pushes(id, text, web_push_urgency(route), route, users, now + push_delay, needs_ack) end
    end

    -- Adds a notification without acks, whose users stage.lua has written for its Web Push. Returns their number, or nil
    -- if they are not staged.
    local function add_staged_push(id, route, data)
        if call('HDEL', prefix .. KEY_STAGED .. id, STAGED_ALL) == 0 then return nil end
        add_notification(id, route, data)
        return call('SCARD', prefix .. KEY_WEB_PUSH_USERS .. id)
    end
    -- True if the audience of a record has no users.
    local function is_open_ended(kind, id, audience, targets)
        local staged = prefix .. KEY_STAGED .. id
        if kind == 'S' then return call('HLEN', staged) == 1 and call('HEXISTS', staged, STAGED_ALL) == 1 end
        return kind == 'A' and audience_size(audience, targets) <= STORE_PAIRS_MAX and #users_of(audience, targets) == 0
    end

    -- True if the stream entry of a record was prepared, and has the field `open_ended` only if its audience needs it.
    function prepared.has_entry_of(from)
        local targets = ARGV[from] ~= 'N' and targets_at(from + 7, tonumber(ARGV[from + 6]))
        local is_open = is_open_ended(ARGV[from], ARGV[from + 2], ARGV[from + 5], targets)
        prepared.must_end = is_open and integer_text(prepared.open_end(ARGV[from + 3])) or ''
        return prepared.entry and prepared.must_end == prepared.open_ended
    end
    HAS_NOTIFICATION = {N = true, A = true, W = true, S = true, P = true}
    ADD_STAGED = {S = add_staged, P = add_staged_push}
end

while ARGV[at] do
    local kind, fresh = ARGV[at], ARGV[at + 1] > position
    -- Relays must read the changes before the notifications that depend on them.
    if HAS_NOTIFICATION[kind] then
        write_changes()
        local next = at + (kind == 'N' and 5 or 7 + tonumber(ARGV[at + 6]))
        local is_last = not ARGV[next] or ARGV[next] == 'C' and not ARGV[next + 2]
        if read and is_last then covered = read .. '.' .. (state[5] or '') end
    end
    if fresh and at == FIRST and prepared.open_ended and not prepared.has_entry_of(at) then
        is_partial = true
        break
    end
    local targets = fresh and (kind == 'A' or kind == 'W') and targets_at(at + 7, tonumber(ARGV[at + 6]))
    if targets then
        local size = audience_size(ARGV[at + 5], targets)
        if is_denied(ARGV[at + 3], ARGV[at + 1], ARGV[at + 4], size) then
            targets = nil
        elseif is_beyond_limit(size) then
            break
        else
            charge_pairs(ARGV[at + 3], ARGV[at + 1], size)
        end
    end
    if fresh and ADD_STAGED[kind] then
        local count = ADD_STAGED[kind](ARGV[at + 2], ARGV[at + 3], ARGV[at + 4])
        if not count then
            is_partial, must_stage = true, 1
            break
        end
        push(ARGV[at + 2], ARGV[at + 3], nil, kind == 'S')
        charge_pairs(ARGV[at + 3], ARGV[at + 1], count + group_count(ARGV[at + 5], tonumber(ARGV[at + 6])))
    end
    if fresh then position = ARGV[at + 1] else skipped = skipped + 1 end
    if kind == 'N' then
        if fresh then add_notification(ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]) end
        at = at + 5
    elseif HAS_NOTIFICATION[kind] then
        if targets then
            local users = users_of(ARGV[at + 5], targets)
            if kind == 'A' then
                add_ack_required(ARGV[at + 2], ARGV[at + 3], ARGV[at + 4], users)
            else
                add_notification(ARGV[at + 2], ARGV[at + 3], ARGV[at + 4])
            end
            push(ARGV[at + 2], ARGV[at + 3], users, kind == 'A')
        end
        at = at + 7 + tonumber(ARGV[at + 6])
    elseif kind == 'R' then
        local count = tonumber(ARGV[at + 5])
        if fresh then
            local targets = targets_at(at + 6, count)
            -- Without the JSON, nobody can send the notification again to a large audience.
            local is_large = audience_size(ARGV[at + 4], targets) > STORE_PAIRS_MAX
            local users = is_large and {} or users_of(ARGV[at + 4], targets)
            log_entry(ARGV[at + 2], error_owner(ARGV[at + 3]), 'rejected', 0, #users > 0 and cjson.encode(users) or '[]', '',
                ARGV[at + 3])
        end
        at = at + 6 + count
    elseif kind == 'L' then
        if fresh then add_reload(ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]) end
        at = at + 5
    elseif kind == 'C' then
        -- The first commit ends the initial copy of the memberships.
        if fresh and meta[2] then call('HDEL', prefix .. KEY_META, META_COPYING) end
        at = at + 2
    else
        if fresh then change_member(kind, ARGV[at + 2], ARGV[at + 3], ARGV[at + 4], ARGV[at + 5]) end
        at = at + 6
    end
end
prepared.discard()
write_changes()
write_pending()
call('HSET', progress, 'position:' .. owner, position)
write_accounts()
if is_partial then
    call('HSET', progress, 'partial:' .. owner, 1)
    return {position, added, skipped, last_entry, at - FIRST, must_stage, prepared.must_end or ''}
end
if state[4] then call('HDEL', progress, 'partial:' .. owner) end
if read then
    call('HSET', progress, 'read:' .. owner, read)
    if covered ~= nil then add_covered(prefix, read, state[5]) end
end
return {position, added, skipped, last_entry}
