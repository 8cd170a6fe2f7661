-- pending.lua: returns the number of pending notifications, and the oldest commit time.
-- KEYS: stream. ARGV: prefix.
-- Returns {number, commit time in ms or 0}.
local stream, prefix = KEYS[1], ARGV[1]
local call = redis.call
-- include: delivery.lua
-- include: stream_entry.lua

local count = call('XPENDING', stream, 'clairon')[1]
-- The delivery time of a pending entry is its commit time (claim), so the entry is not read.
local row = call('XPENDING', stream, 'clairon', '-', '+', 1)[1]
local oldest = row and now_ms() - row[3]
local retried = oldest and oldest_retried(1)[1]
if retried and retried.commit < oldest then oldest = retried.commit end
return {count, integer_text(oldest or 0)}
