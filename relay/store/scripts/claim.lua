-- claim.lua: makes a feed the owner of a slot's progress, so that a dead feed's late batch is refused.
-- KEYS: progress. ARGV: owner token, system identifier, timeline; of several shards: 1.
-- Returns {position, timeline, read} as last stored; '' or the given timeline where there is none; and
-- of several shards the route of the newest note from a commit, '' if there is none.
local progress = KEYS[1]
local system = redis.call('HGET', progress, 'system')
if system and system ~= ARGV[2] then
    return redis.error_reply('OTHERSYSTEM ' .. progress .. ' belongs to the PostgreSQL cluster ' .. system ..
        ', this is cluster ' .. ARGV[2] .. ': choose another [store] prefix, or if this one has taken the place of ' ..
        'that one (pg_upgrade, a restored dump), DEL that key: clients are told of a gap')
end
-- A failover gives a higher timeline, as a restore does. So a primary that was thought dead is back, or
-- one of several hosts is the wrong one: what it holds must not undo what the other sent, nor fence that.
local followed = redis.call('HGET', progress, 'timeline')
if followed and tonumber(followed) > tonumber(ARGV[3]) then
    return redis.error_reply('OLDTIMELINE this server is on timeline ' .. ARGV[3] .. ', but the store has followed a ' ..
        'failover to timeline ' .. followed .. ': [feed] conninfo must lead to the server that took over; if this ' ..
        'one is to stay, DEL ' .. progress .. ' (of several shards that of each): clients are told of a gap')
end
local known = redis.call('HGET', progress, 'owner') or ''
-- A store that was fed before and does not know this slot: what came between is gone, and memberships,
-- which are copied anew, may be another cluster's. The feed is told by the epoch of its next batch.
local prefix = progress:match('^(.*):progress:')
if known == '' and redis.call('HEXISTS', prefix .. ':meta', 'topic_prefix') == 1 then
    for _, kind in ipairs({':members:*', ':groups:*'}) do
        for _, key in ipairs(redis.call('KEYS', prefix .. kind)) do redis.call('DEL', key) end
    end
    redis.call('HSET', prefix .. ':meta', 'epoch', ARGV[1]:sub(1, 16))
    redis.call('XADD', prefix .. ':control', 'MAXLEN', '~', 10000, '*', 'change', '=')
end
if known == '' then redis.call('HSET', prefix .. ':meta', 'copying', 1) end
local position = redis.call('HGET', progress, 'position:' .. known) or ''
local timeline = followed or ARGV[3]
local read = redis.call('HGET', progress, 'read:' .. known) or ''
local owner = ARGV[1]
redis.call('HMSET', progress, 'owner', owner, 'system', ARGV[2], 'position:' .. owner, position,
    'read:' .. owner, read)
-- Another timeline is for the feed to judge first: reset.lua.
redis.call('HSETNX', progress, 'timeline', ARGV[3])
-- What feeds before it left, or wrote too late: nobody reads it any more.
for _, field in ipairs(redis.call('HKEYS', progress)) do
    local whose = field:match('^position:(.*)$') or field:match('^read:(.*)$')
    if whose and whose ~= owner then redis.call('HDEL', progress, field) end
end
if not ARGV[4] then return {position, timeline, read} end

-- hello.lua looks there.
redis.call('HSET', prefix .. ':meta', 'progress', progress)

-- Of what is further back no reader waits for anything.
-- include: back.lua
local _, newest_route = newest_note(prefix .. ':stream', '+', 32, function() return true end)
return {position, timeline, read, newest_route or ''}
