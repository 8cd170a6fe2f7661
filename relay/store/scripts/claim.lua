-- claim.lua: makes a feed the owner of a slot's progress, so that a dead feed's late batch is refused.
-- KEYS: progress. ARGV: owner token, system identifier, timeline.
-- Returns {position, timeline, read} as last stored; '' or the given timeline where there is none.
local progress = KEYS[1]
local system = redis.call('HGET', progress, 'system')
if system and system ~= ARGV[2] then
    return redis.error_reply('OTHERSYSTEM ' .. progress .. ' belongs to the PostgreSQL cluster ' .. system ..
        ', this is cluster ' .. ARGV[2] .. ': choose another [store] prefix or [feed] slot, or delete that key')
end
local position = redis.call('HGET', progress, 'position') or ''
local timeline = redis.call('HGET', progress, 'timeline') or ARGV[3]
local read = redis.call('HGET', progress, 'read') or ''
redis.call('HSET', progress, 'owner', ARGV[1], 'system', ARGV[2])
-- Another timeline is for the feed to judge first: reset.lua.
redis.call('HSETNX', progress, 'timeline', ARGV[3])
return {position, timeline, read}
