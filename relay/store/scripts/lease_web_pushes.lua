-- lease_web_pushes.lua: leases due Web Pushes. Unless the relay ends or renews them, they are due again after the lease.
-- KEYS: stream. ARGV: prefix, lease in ms, maximum; 0 only counts.
-- Returns {number of Web Pushes of the shard, age in ms of the oldest notification with one, number that have expired now,
-- leased}, with for each that is leased: id, user, text, urgency, commit and expiration in ms, state of earlier attempts,
-- 1 if the user must acknowledge, time in ms since when the user must have been absent.
local stream, prefix = KEYS[1], ARGV[1]
local call = redis.call
-- include: notifications.lua
-- include: stream_entry.lua
-- include: web_push.lua

local now, most, leased, expired = now_ms(), tonumber(ARGV[3]), {}, 0
local due, large = prefix .. KEY_WEB_PUSH_DUE, prefix .. KEY_WEB_PUSH_LARGE

-- Moves users of a large audience into the queue, unless enough others are due.
local function pop_large()
    local id = call('ZRANGEBYSCORE', large, '-inf', integer_text(now), 'LIMIT', 0, 1)[1]
    if not id or call('ZCOUNT', due, '-inf', integer_text(now)) >= most then return end
    local staged, lifetime = prefix .. KEY_WEB_PUSH_USERS .. id, call('PTTL', prefix .. KEY_WEB_PUSH .. id)
    if lifetime <= 0 then
        expired = expired + call('SCARD', staged)
        call('UNLINK', staged)
        call('ZREM', large, id)
        call('ZREM', prefix .. KEY_WEB_PUSH_COMMITS, id)
        return
    end
    local users = call('SPOP', staged, most)
    queue_web_pushes(id, users, now, lifetime)
    if #users < most then call('ZREM', large, id) end
end

local function lease(item)
    local id, user = item:match('^([^:]+):(.*)$')
    local fields = call('HMGET', prefix .. KEY_WEB_PUSH .. id, 'text', 'urgency', 'commit', 'expires', 'needs_ack', 'since', 'state ' .. user)
    local expires = tonumber(fields[4] or nil) or 0
    -- A pair that ended otherwise has no pending acknowledgement either.
    local is_acknowledged = fields[5] == '1' and call('HGET', prefix .. KEY_ACK .. id, user) ~= '0'
    if not fields[1] or is_acknowledged then
        end_web_push(id, user)
    elseif expires > 0 and expires <= now then
        expired = expired + 1
        end_web_push(id, user)
    else
        call('ZADD', due, integer_text(now + tonumber(ARGV[2])), item)
        leased[#leased + 1] = {id, user, fields[1], fields[2], fields[3], fields[4], fields[7] or '', fields[5], fields[6] or fields[3]}
    end
end

if most > 0 then pop_large() end
for _, item in ipairs(call('ZRANGEBYSCORE', due, '-inf', integer_text(now), 'LIMIT', 0, most)) do lease(item) end

local LARGE_MAX = 100
local oldest, count = call('ZRANGE', prefix .. KEY_WEB_PUSH_COMMITS, 0, 0, 'WITHSCORES')[2], call('ZCARD', due)
for _, id in ipairs(call('ZRANGE', large, 0, LARGE_MAX - 1)) do count = count + call('SCARD', prefix .. KEY_WEB_PUSH_USERS .. id) end
return {count, oldest and math.max(0, now - tonumber(oldest)) or 0, expired, leased}
