-- presence.lua: stores a relay's heartbeat, and changes to its connected users. Also writes reloads.
-- KEYS: stream. ARGV: prefix, relay id, change (= all users, + added, - removed, . heartbeat only),
-- 1 to record when removed users were last seen, users.
-- Returns 1 if the relay was registered, 0 if it must send all of its users again.
local stream, prefix = KEYS[1], ARGV[1]
local call = redis.call
-- include: notifications.lua
-- include: control_stream.lua

local relays, key = prefix .. KEY_RELAYS, prefix .. KEY_PRESENCE .. ARGV[2]
local now, users = now_ms(), {}
local known = call('ZSCORE', relays, ARGV[2]) and 1 or 0

for at = 5, #ARGV do users[at - 4] = ARGV[at] end
call('ZADD', relays, integer_text(now), ARGV[2])
if ARGV[3] == '=' then call('UNLINK', key) end
call_chunked(users, ARGV[3] == '-' and 'SREM' or 'SADD', key)
-- Web Pushes are for users without a session since the commit (was_present.lua).
if ARGV[3] == '-' and ARGV[4] == '1' then
    local seen = {}
    for i, user in ipairs(users) do seen[2 * i - 1], seen[2 * i] = integer_text(now), user end
    call_chunked(seen, 'ZADD', prefix .. KEY_LAST_SEEN)
    call('ZREMRANGEBYSCORE', prefix .. KEY_LAST_SEEN, '-inf', integer_text(now - STORE_LAST_SEEN_MS))
    call('PEXPIRE', prefix .. KEY_LAST_SEEN, STORE_LAST_SEEN_MS)
end
for _, dead in ipairs(call('ZRANGEBYSCORE', relays, '-inf', integer_text(now - STORE_PRESENCE_REMOVED_MS))) do
    call('ZREM', relays, dead)
    call('UNLINK', prefix .. KEY_PRESENCE .. dead)
end
-- The lists of live rules whose changes ingest.lua has denied: at most one reload per heartbeat.
local RELOADS_MAX = 1000
local reloads, written = call('HSCAN', prefix .. KEY_RELOADS, 0, 'COUNT', RELOADS_MAX)[2], {}
for i = 1, #reloads, 2 do
    local names = cjson.decode(reloads[i])
    add_reload(names[1], names[2], reloads[i + 1])
    written[#written + 1] = reloads[i]
end
write_changes()
call_chunked(written, 'HDEL', prefix .. KEY_RELOADS)
return known
