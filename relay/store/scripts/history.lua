-- history.lua: returns the generations of a stream, for a connection that reads it (history.h).
-- KEYS: stream. ARGV: prefix.
-- Returns {generations, newest id ever}, or {''} until hello.lua has begun this server's generation.
local stream = KEYS[1]
-- include: last_id.lua
local known = redis.call('HMGET', ARGV[1] .. KEY_META, 'run', 'history')
if known[1] ~= redis.call('INFO', 'server'):match('run_id:(%x+)') then return {''} end
return {known[2] or '', last_generated_id(stream)}
