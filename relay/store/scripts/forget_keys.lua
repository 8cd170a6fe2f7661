-- forget_keys.lua: removes a user from the keys of a shard, apart from streams and sorted sets. The caller repeats it until
-- it has visited all keys.
-- KEYS: stream. ARGV: prefix, user, cursor of SCAN, '0' at the start, number of keys to visit.
-- Returns {next cursor, '0' at the end, the work of this call in lookups, number of keys and fields that were removed}.
-- Pairs that are pending end in forget_pairs.lua. Memberships are those of clairon.member.
local stream, prefix, user, call = KEYS[1], ARGV[1], ARGV[2], redis.call
-- include: pending_value.lua

local work, removed = 0, 0

local function remove_key(key)
    call('UNLINK', key)
    removed = removed + 1
end

local function remove_field(key) removed = removed + call('HDEL', key, user) end

-- Without the pair, trace.lua would conclude that the user was not addressed.
local function is_mark(event) return event:find('^forgotten ') ~= nil end
local function mark() return 'forgotten ' .. call('TIME')[1] .. '000 0 - ' end

local function mark_trace(id)
    local key = prefix .. KEY_TRACE .. id
    local events = call('LRANGE', key, 0, -1)
    work = work + #events
    for _, event in ipairs(events) do
        if is_mark(event) then return end
    end
    if #events > 0 then call('RPUSH', key, mark()) end
end

local function remove_acked(key, id)
    if call('HEXISTS', key, user) == 0 then return end
    mark_trace(id)
    remove_field(key)
end

local function remove_ack(key, id)
    local state = call('HGET', key, user)
    if state and (state ~= '0' or call('HEXISTS', prefix .. KEY_PENDING, id) == 0) then remove_acked(key, id) end
end

-- Events are: stage, time, attempt, detail and user.
local function is_event_of_user(event)
    return event:sub(-#user - 1) == ' ' .. user and event:match('^%S+ %S+ %S+ %S+ (.*)$') == user and event:sub(1, 7) ~= 'stored '
end

-- The list is written once, because a trace may have hundreds of events of the user.
local function remove_events(key)
    local events, others, is_marked = call('LRANGE', key, 0, -1), {}, false
    for _, event in ipairs(events) do
        if not is_event_of_user(event) then
            others[#others + 1] = event
            is_marked = is_marked or is_mark(event)
        end
    end
    work = work + #events
    if #others == #events then return end
    removed, work = removed + #events - #others, work + #others
    if not is_marked then others[#others + 1] = mark() end
    local left_ms = call('PTTL', key)
    call('DEL', key)
    call('RPUSH', key, unpack(others))
    if left_ms > 0 then call('PEXPIRE', key, left_ms) end
end

-- A copy without users is deleted with the next one. The stream entry of a pending notification remains.
local function remove_copies(key, id)
    local copies, is_changed = call('LRANGE', key, 0, -1), false
    for i = 2, #copies do
        local copy, users = cjson.decode(copies[i]), {}
        for _, name in ipairs(copy.users) do
            if name ~= user then users[#users + 1] = name end
        end
        if #users < #copy.users then
            removed, is_changed = removed + 1, true
            copy.users = #users > 0 and users or {''}
            copies[i] = cjson.encode(copy)
            if #users == 0 and pending_entry(call('HGET', prefix .. KEY_PENDING, id) or '-') ~= copy.entry then
                call('XDEL', stream, copy.entry)
            end
        end
    end
    if not is_changed then return end
    call('DEL', key)
    call('RPUSH', key, unpack(copies))
end

local function remove_idempotency(key, rest)
    local len, at = rest:match('^(%d+):()')
    if tonumber(len) == #user and rest:sub(at, at + #user) == user .. ':' then remove_key(key) end
end

local function remove_ticket(key)
    local is_object, claims = pcall(cjson.decode, call('GET', key) or '')
    if is_object and claims.sub == user then remove_key(key) end
end

local function remove_push_ticket(key)
    local value = call('GET', key)
    if value and value:match('^[^ ]+ (.*)$') == user then remove_key(key) end
end

local function remove_endpoint(key, id)
    if call('GET', key) ~= user then return end
    remove_key(key)
    call('UNLINK', prefix .. KEY_PUSH_FAILURE .. id)
end

local function remove_web_push_user(key, id)
    if call('SREM', key, user) == 0 then return end
    removed = removed + 1
    if call('HINCRBY', prefix .. KEY_WEB_PUSH .. id, 'left', -1) <= 0 then call('UNLINK', prefix .. KEY_WEB_PUSH .. id) end
end

local function remove_web_push(key) removed = removed + call('HDEL', key, 'state ' .. user) end
local function remove_own(key, name)
    if name == user then remove_key(key) end
end

local HANDLERS = {
    [KEY_ACK] = remove_ack, [KEY_ACKED] = remove_acked, [KEY_RETRIES] = remove_field, [KEY_UNREPORTED_ACKS] = remove_field,
    [KEY_RECEIPT_STATE] = remove_field, [KEY_STAGED] = remove_field, [KEY_TRACE] = remove_events, [KEY_COPIES] = remove_copies,
    [KEY_IDEMPOTENCY] = remove_idempotency, [KEY_TICKET] = remove_ticket, [KEY_PUSH_TICKET] = remove_push_ticket,
    [KEY_ENDPOINT] = remove_endpoint, [KEY_SUBSCRIPTIONS] = remove_own, [KEY_WEB_PUSH_USERS] = remove_web_push_user,
    [KEY_WEB_PUSH] = remove_web_push, [KEY_GAPS] = remove_own,
}
local page = call('SCAN', ARGV[3], 'MATCH', prefix:gsub('[%[%]*?\\]', '\\%0') .. ':*', 'COUNT', ARGV[4])
for _, key in ipairs(page[2]) do
    local kind, name = key:sub(#prefix + 1):match('^(:[%a_]+:)(.*)$')
    if HANDLERS[kind] then
        work = work + 1
        HANDLERS[kind](key, name)
    end
end
return {page[1], work, removed}
