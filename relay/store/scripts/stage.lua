-- stage.lua: writes the next users of a large audience to a hash, if they must acknowledge, and to a
-- set, if they receive a Web Push. No other script reads them before ingest.lua or publish.lua adds the
-- notification.
-- KEYS: stream. ARGV: prefix, epoch, progress and owner token (both '': for publish.lua),
-- notification id, target at which to continue, cursor in its members ('': start again), purpose (A:
-- acknowledgements, P: Web Pushes, AP: both), audience, targets.
-- Returns {target, cursor} for the next call, or {0, ''} after the last user.
-- Members of a group change only between the batches of a feed. What is left expires.
local prefix = ARGV[1]
local call = redis.call
-- include: audience.lua
-- include: staged.lua

local LEFT_MS, STEP = 3600000, 500
if call('HGET', prefix .. KEY_META, META_EPOCH) ~= ARGV[2] then
    return redis.error_reply('EPOCH the store was emptied')
end
if ARGV[3] ~= '' and call('HGET', ARGV[3], 'owner') ~= ARGV[4] then
    return redis.error_reply('FENCED another feed owns this slot now')
end
local key, target, cursor, audience = prefix .. KEY_STAGED .. ARGV[5], tonumber(ARGV[6]), ARGV[7], ARGV[9]
local needs_ack, has_push, pushes = ARGV[8]:find('A'), ARGV[8]:find('P'), prefix .. KEY_WEB_PUSH_USERS .. ARGV[5]
local FIRST, budget, kinds = 9, STORE_PAIRS_MAX, kinds_of(audience)
if cursor == '' then call('UNLINK', key, pushes) end

local function add(users)
    local states = {}
    for i, user in ipairs(needs_ack and users or {}) do states[2 * i - 1], states[2 * i] = user, '0' end
    for from = 1, has_push and #users or 0, STEP do
        call('SADD', pushes, unpack(users, from, math.min(from + STEP - 1, #users)))
    end
    for from = 1, #states, 2 * STEP do
        call('HMSET', key, unpack(states, from, math.min(from + 2 * STEP - 1, #states)))
    end
end

-- Scans the smallest set, and checks its members in the others.
local function scan_members(keys)
    local smallest, least = 1, math.huge
    for i = 1, #keys > 1 and #keys or 0 do
        local size = call('SCARD', keys[i])
        if size < least then smallest, least = i, size end
    end
    repeat
        local page = call('SSCAN', keys[smallest], cursor, 'COUNT', STEP)
        local users = {}
        for _, user in ipairs(page[2]) do
            local is_member = true
            for i = 1, #keys do
                if i ~= smallest and call('SISMEMBER', keys[i], user) == 0 then is_member = false end
            end
            if is_member then users[#users + 1] = user end
        end
        add(users)
        cursor, budget = page[1], budget - math.max(1, #page[2] * #keys)
    until cursor == '0' or budget <= 0
end

while ARGV[FIRST + target] and budget > 0 do
    if audience == 'USER' then
        local last = math.min(target + budget - 1, #ARGV - FIRST)
        add({unpack(ARGV, FIRST + target, FIRST + last)})
        target, budget, cursor = last, budget - (last - target + 1), '0'
    else
        local keys = member_keys(audience, kinds, ARGV[FIRST + target])
        if cursor == '' then cursor = '0' end
        if keys then scan_members(keys) end
        budget = budget - (kinds and #kinds or 1)
    end
    if cursor ~= '0' then break end
    target = target + 1
end
if not ARGV[FIRST + target] then
    call('HSET', key, STAGED_ALL, '')
    target, cursor = 0, ''
end
call('PEXPIRE', key, LEFT_MS)
call('PEXPIRE', pushes, LEFT_MS)
return {target, cursor}
