-- acquire.lua: makes a feed the owner of a slot's progress, and fences late batches of earlier
-- feeds.
-- KEYS: progress. ARGV: owner token, system identifier, timeline, '1' with several shards,
-- otherwise '', database oid, database name.
-- Returns {position, timeline, read, newest, delete, stored}. The first three are as stored, without progress
-- the given timeline and empty strings. newest: with several shards, the position of the newest notification
-- with a commit, up to the stored position: later ones were undone. '' without such a notification, or '-' if it was not
-- found. delete: '1' if the caller must call delete_members.lua before it stores memberships, otherwise ''.
-- stored: with several shards, the last argument of the last rewind.lua, or ''.
local progress, prefix = KEYS[1], KEYS[1]:match('^(.*)' .. KEY_PROGRESS)
local meta = prefix .. KEY_META

-- A store serves one database. The slot name is checked below.
local function rejection_by(key)
    local kept = redis.call('HMGET', key, 'system', 'database', 'database_name')
    local is_other_system = kept[1] and kept[1] ~= ARGV[2]
    if not is_other_system and (not kept[1] or kept[2] == ARGV[5]) then return nil end
    local stored_name, own_name = cjson.encode(kept[3] or 'unknown'), cjson.encode(ARGV[6])
    local difference
    if is_other_system then
        difference = 'OTHERSYSTEM ' .. key .. ' belongs to the PostgreSQL cluster ' .. kept[1] ..
            ', this is cluster ' .. ARGV[2] .. ' (database ' .. stored_name .. ' in the store, ' .. own_name .. ' on this server)'
    else
        difference = 'OTHERDATABASE ' .. key .. ' belongs to database ' .. stored_name .. ' (oid ' .. kept[2] ..
            '), this is database ' .. own_name .. ' (oid ' .. ARGV[5] .. ') of the same PostgreSQL cluster'
    end
    return redis.error_reply(difference .. ': set another [store] prefix; if this database replaces the stored one ' ..
        '(pg_upgrade, a restored dump), DEL that key in every shard: clients receive a gap')
end
local rejected = rejection_by(progress) or rejection_by(redis.call('HGET', meta, META_PROGRESS) or progress)
if rejected then return rejected end

-- A store serves one slot: relays with different slots would rewind each other's progress.
local current = redis.call('HGET', meta, META_PROGRESS)
if current and current ~= progress and redis.call('EXISTS', current) == 1 then
    return redis.error_reply('OTHERSLOT this store contains the progress of another slot of this database, ' .. current ..
        ', not ' .. progress .. ': set [feed] slot to that slot, or set another [store] prefix; to replace the ' ..
        'slot, stop its relay and DEL ' .. current .. ' in every shard: clients receive a gap')
end

-- A failover or a restore raises the timeline. A lower timeline means that a former primary has
-- returned, or that the host in conninfo is wrong. The feed of that server must not rewind or fence
-- the feed of the current primary.
local followed = redis.call('HGET', progress, 'timeline')
if followed and tonumber(followed) > tonumber(ARGV[3]) then
    return redis.error_reply('OLDTIMELINE this server is on timeline ' .. ARGV[3] .. ', but the store has ' ..
        'followed a failover to timeline ' .. followed .. ': set [feed] conninfo to the new primary; to keep ' ..
        'this server, DEL ' .. progress .. ' in every shard: clients receive a gap')
end
local known = redis.call('HGET', progress, 'owner') or ''
-- If the store has data but no progress of this slot, WAL was lost. The memberships may belong to
-- another cluster, so the feed copies them again. The new epoch announces a gap.
local has_data = known == '' and redis.call('HEXISTS', meta, META_TOPIC_PREFIX) == 1
if has_data then
    redis.call('HSET', meta, META_EPOCH, ARGV[1]:sub(1, 16))
end
if known == '' then redis.call('HSET', meta, META_COPYING, has_data and 'delete' or 1) end
-- Also true after an interrupted deletion.
local must_delete = redis.call('HGET', meta, META_COPYING) == 'delete' and '1' or ''
local position = redis.call('HGET', progress, 'position:' .. known) or ''
local timeline = followed or ARGV[3]
local read = redis.call('HGET', progress, 'read:' .. known) or ''
local owner = ARGV[1]
redis.call('HMSET', progress, 'owner', owner, 'system', ARGV[2], 'database', ARGV[5], 'database_name', ARGV[6],
    'position:' .. owner, position, 'read:' .. owner, read)
redis.call('HDEL', progress, 'partial:' .. owner)
-- From now on the stream exists (renew_covered.lua). It has no position of a former epoch.
if has_data or redis.call('EXISTS', prefix .. KEY_COVERED) == 0 then
    redis.call('XADD', prefix .. KEY_COVERED, 'MAXLEN', 1, '*', 'reset', read)
end
-- The next acquire.lua reads this field. With several shards, hello.lua reads it too.
redis.call('HSET', meta, META_PROGRESS, progress)
-- If the timeline differs, the feed decides whether to call rewind.lua.
redis.call('HSETNX', progress, 'timeline', ARGV[3])
-- Removes the fields of earlier owners, including late writes of a fenced feed.
for _, field in ipairs(redis.call('HKEYS', progress)) do
    local field_owner = field:match('^position:(.*)$') or field:match('^read:(.*)$') or field:match('^partial:(.*)$')
    if field_owner and field_owner ~= owner then redis.call('HDEL', progress, field) end
end
if ARGV[4] == '' then return {position, timeline, read, '', must_delete} end

-- Only the newest pages are searched, because relays do not wait for older notifications.
-- include: reverse_scan.lua
local found, newest_route = newest_notification(prefix .. KEY_STREAM, '+', 32,
    function(route) return position_text(route) <= position end)
return {position, timeline, read, newest_route and position_text(newest_route) or found == nil and '' or '-', must_delete,
    redis.call('HGET', progress, 'stored') or ''}
