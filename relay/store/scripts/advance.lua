-- advance.lua: advances the slot's progress in a shard without storing anything there, and reports to readers what the
-- shard covers.
-- KEYS: progress. ARGV: prefix, owner token, the position that this one follows, the new position, the LSN before which
-- all WAL is processed, the newest notification of each other shard (shard_dependency_text) or ''.
-- Returns 1.
local progress, owner, after, call = KEYS[1], ARGV[2], ARGV[3], redis.call
local read, state = ARGV[5], call('HMGET', progress, 'owner', 'position:' .. owner, 'read:' .. owner, 'timeline')
local position = state[2] or ''
-- include: covered.lua
-- A store that was emptied has no owner.
if state[1] ~= owner then return redis.error_reply('FENCED another feed owns this slot now') end
-- The shard has lost data.
if position < after then return redis.error_reply('BEHIND ' .. position) end
if read < (state[3] or '') then read = state[3] end
-- A shard that is ahead of the feed has reported this: the feed sends again what another shard has lost. It has sent that
-- once all WAL up to the position is processed: maybe without a frame, because the WAL was confirmed.
local is_ahead = position > ARGV[4] and ARGV[5] <= position:sub(1, 16)
local to = position > ARGV[4] and position or ARGV[4]
call('HMSET', progress, 'position:' .. owner, to, 'read:' .. owner, read)
if not is_ahead then add_covered(ARGV[1], read, state[4], to, ARGV[6]) end
return 1
