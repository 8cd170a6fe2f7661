-- history.lua: returns the generations of a stream, for a connection that reads it (entry.h).
-- KEYS: stream. ARGV: prefix.
-- Returns '' until hello.lua has begun the generation of this server.
-- include: renew_covered.lua
renew_covered(ARGV[1])
local known = redis.call('HMGET', ARGV[1] .. KEY_META, META_RUN, META_HISTORY)
local run = redis.call('INFO', 'server'):match('run_id:(%x+)')
return known[1] == run and known[2] or ''
