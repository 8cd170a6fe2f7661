-- rewind.lua: moves a slot's progress back to WAL that still exists, and reports the gap by a new
-- epoch.
-- KEYS: progress. ARGV: prefix, owner token, timeline, position, new epoch or '' without a gap,
-- read LSN or '' to keep the current LSN, the LSN from which on stored transactions were undone or '',
-- position up to which the frames stay stored: beyond the new one if the memberships are copied again.
-- An empty position also removes the memberships, at the next acquire.lua: the feed copies them again.
-- include: undone.lua
-- include: covered.lua
local progress, prefix = KEYS[1], ARGV[1]
local call = redis.call
local owner = ARGV[2]
if call('HGET', progress, 'owner') ~= owner then
    return redis.error_reply('FENCED another feed owns this slot now')
end
call('HSET', progress, 'timeline', ARGV[3], 'position:' .. owner, ARGV[4], 'stored', ARGV[8])
if ARGV[6] ~= '' then call('HSET', progress, 'read:' .. owner, ARGV[6]) end
if ARGV[4] == '' then call('HSET', prefix .. KEY_META, META_COPYING, 'delete') end
if ARGV[7] ~= '' then
    add_undone(prefix, ARGV[7])
end
-- What was covered in the former epoch is not in this one.
if ARGV[5] ~= '' then
    call('HSET', prefix .. KEY_META, META_EPOCH, ARGV[5])
    call('XADD', prefix .. KEY_COVERED, 'MAXLEN', 1, '*', 'reset', call('HGET', progress, 'read:' .. owner) or '')
else
    add_covered(prefix, ARGV[6], ARGV[3]) -- of the new timeline, whose LSNs may be lower
end
return 1
