-- presence.lua: a relay tells which users have live connections to it, and that it lives itself.
-- KEYS: stream. ARGV: prefix, the relay's name, what: = these and no others, + these came, - these
-- went, or . nothing new; then users.
-- Returns 1 when the relay was known to live, 0 when it has to tell all of its users again.
local stream, prefix = KEYS[1], ARGV[1]
local call = redis.call
-- include: delivery.lua

local DEAD_MS = 60000 -- a relay that is silent for so long is forgotten
local relays, key = prefix .. KEY_RELAYS, prefix .. KEY_PRESENCE .. ARGV[2]
local now, users = now_ms(), {}
local known = call('ZSCORE', relays, ARGV[2]) and 1 or 0

for at = 4, #ARGV do users[at - 3] = ARGV[at] end
call('ZADD', relays, whole(now), ARGV[2])
if ARGV[3] == '=' then call('DEL', key) end
call_chunked(users, ARGV[3] == '-' and 'SREM' or 'SADD', key)
for _, dead in ipairs(call('ZRANGEBYSCORE', relays, '-inf', whole(now - DEAD_MS))) do
    call('ZREM', relays, dead)
    call('DEL', prefix .. KEY_PRESENCE .. dead)
end
return known
