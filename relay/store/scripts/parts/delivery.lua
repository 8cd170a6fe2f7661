-- delivery.lua: what the scripts of delivery share. Needs `call`, `stream` and `prefix`.

local function now_ms()
    local time = call('TIME')
    return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function whole(number) return string.format('%.0f', number) end

-- An entry's place as one number that a sorted set can hold exactly.
local function score_of(entry)
    local ms, seq = entry:match('^(%d+)-(%d+)$')
    return whole(tonumber(ms) * 1024 + math.min(tonumber(seq), 1023))
end

-- How long to wait before retry `tries` + 1: grows as `kind` says, a little more so that not all
-- come at once, the same for all users of a message, so that they share a copy.
local function backoff_ms(kind, tries, id, base, cap)
    local wait = base
    if kind == 'E' then wait = base * 2 ^ math.min(tries, 40) end
    if kind == 'L' then wait = base * (tries + 1) end
    local jitter = (tonumber(id:sub(-4), 16) * (tries + 1) * 7919) % 1000 / 5000
    return math.floor(math.min(wait * (1 + jitter), cap))
end

-- Ends a message: every user it waits for has acked, expired or was given up.
local function complete(id)
    local entry = call('HGET', prefix .. ':pending', id)
    if entry then call('XACK', stream, 'clairon', entry) end
    call('HDEL', prefix .. ':pending', id)
    call('HDEL', prefix .. ':left', id)
    call('HDEL', prefix .. ':open', id)
    call('DEL', prefix .. ':ack:' .. id, prefix .. ':tries:' .. id)
    call('ZREM', prefix .. ':due', id .. ':')
end

-- Adds to the error log; `users` is a JSON array.
local ERRORS_MAX = 100000
local function log_entry(id, reason, attempts, users, data, route)
    call('XADD', prefix .. ':errors', 'MAXLEN', '~', ERRORS_MAX, '*', 'id', id, 'reason', reason,
        'attempts', attempts, 'users', users, 'data', data, 'route', route)
end

-- What happened to a message, for those who ask later: stage, ms, attempt, detail, user.
local TRAIL_MAX = 512
local trails, trail_ids = {}, {}

local function note_event(id, stage, now, attempt, detail, user)
    if not trails[id] then
        trails[id] = {}
        trail_ids[#trail_ids + 1] = id
    end
    local events = trails[id]
    if #events < TRAIL_MAX then
        events[#events + 1] = table.concat({stage, whole(now), attempt, detail, user}, ' ')
    end
end

local function write_events()
    for _, id in ipairs(trail_ids) do
        local key = prefix .. ':trail:' .. id
        if call('RPUSHX', key, unpack(trails[id])) > TRAIL_MAX then
            call('LTRIM', key, -TRAIL_MAX, -1)
        end
    end
end
