-- receipts_ack.lua: acknowledges receipts that a sink has taken.
-- KEYS: stream of notifications. ARGV: prefix, group, generation in which they were read, position of
-- the sink's database or '', entries.
-- Returns 1; 0 if the generation has changed: then the entries may be others, and nothing was done.
local prefix, group, position = ARGV[1], ARGV[2], ARGV[4]
-- include: sinks.lua
-- include: forgotten.lua
if generation() ~= ARGV[3] then return 0 end
redis.call('XACK', receipts, group, unpack(ARGV, 5))
for at = 5, #ARGV do forgotten.acknowledged(ARGV[at]) end
if position ~= '' then redis.call('HSET', sinks, 'position:' .. group, position) end
return 1
