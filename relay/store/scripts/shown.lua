-- shown.lua: users were shown what they owe an ack for: from now on its time runs.
-- KEYS: stream. ARGV: prefix, ack time-out, backoff base and cap in ms, then for each user and
-- message: how, user, id. `how` is three letters: S shown, or D held back by a full window; the
-- backoff E, L or F, or - when it is never retried; O whoever is shown it owes an ack, or C.
-- Returns the places, from 0, of those held back that owe no ack.
local stream, prefix = KEYS[1], ARGV[1]
local call = redis.call
-- include: delivery.lua

local timeout, base, cap = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local now, unowed = now_ms(), {}

-- A user of an open audience joins those who are waited for.
local function enrol(id, user)
    local entry = call('HGET', prefix .. ':pending', id)
    if not entry or call('HEXISTS', prefix .. ':open', id) == 0 then return nil end
    call('HSET', prefix .. ':ack:' .. id, user, '0')
    call('HINCRBY', prefix .. ':left', id, 1)
    call('ZADD', prefix .. ':inbox:' .. user, score_of(entry), id)
    return '0'
end

for at = 5, #ARGV, 3 do
    local how, user, id = ARGV[at], ARGV[at + 1], ARGV[at + 2]
    local shown, kind = how:sub(1, 1) == 'S', how:sub(2, 2)
    local state = call('HGET', prefix .. ':ack:' .. id, user)
    if not state and how:sub(3, 3) == 'O' then state = enrol(id, user) end
    if state == '0' and shown then
        local tries = tonumber(call('HGET', prefix .. ':tries:' .. id, user) or '0')
        if kind ~= '-' then
            local due = now + timeout + backoff_ms(kind, tries, id, base, cap)
            call('ZADD', prefix .. ':due', 'NX', whole(due), id .. ':' .. user)
        end
        note_event(id, 'sent', now, tries, '-', user)
    elseif not state and not shown then
        unowed[#unowed + 1] = (at - 5) / 3
    end
end
write_events()
return unowed
