-- hello.lua: prepares a shard for a relay, and returns its epoch and newest stream entry.
-- KEYS: stream. ARGV: prefix, a new epoch, number of shards, '1' if all shards are on one server,
-- otherwise '', ID of the node of a cluster, which has all keys (shard.h), otherwise ''.
-- Returns {epoch, newest id ever, 1 if the first stream entry is known, otherwise 0, topic prefix
-- or '', stored position of the slot or '' (always '' with one shard), newest transactions, {entry
-- of the control stream and transaction id of each of the newest membership changes and reloads},
-- 1 with the progress of a slot, otherwise 0, how often transactions were undone, generations
-- (entry.h), the fields of the newest entry of covered.lua}.
local stream, prefix = KEYS[1], ARGV[1]
-- include: keys.lua
-- include: last_id.lua
-- include: newest_transactions.lua
-- include: stored_position.lua

-- A user's shard depends on the number of shards, so a different number would hide stored
-- notifications. Keys with and without a shard number can coexist only on a single server; a
-- cluster rejects access to keys of another slot.
local shards, is_numbered = ARGV[3], shard_number(prefix) ~= nil
local base = base_prefix(prefix)
local created_with = redis.call('HGET', prefix .. KEY_META, META_SHARDS)
if ARGV[4] == '1' then
    local first = base .. KEY_SHARD_BEGIN .. '0' .. KEY_SHARD_END .. KEY_META
    created_with = created_with or redis.call('HGET', first, META_SHARDS) or
        is_numbered and redis.call('XLEN', base .. KEY_STREAM) > 0 and '1'
end
if created_with and created_with ~= shards then
    return redis.error_reply('SHARDS ' .. base .. ' was created with [store] shards = ' .. created_with ..
        ', not ' .. shards .. ': restore the old number; or, after all notifications are acknowledged, ' ..
        'set another [store] prefix and drop the slot')
end

-- A removed stream means that the store was emptied.
if redis.call('EXISTS', stream) == 0 and redis.call('HDEL', prefix .. KEY_META, META_FIRST) == 1 then
    redis.call('HSET', prefix .. KEY_META, META_EPOCH, ARGV[2])
end
-- A store that is full or cannot write to disk can still be read, so a failed write matters only if
-- no epoch exists yet. A replica is rejected, although reads would succeed.
local created = redis.pcall('HSETNX', prefix .. KEY_META, META_EPOCH, ARGV[2])
if type(created) == 'table' and created.err and
    (created.err:find('READONLY', 1, true) or not redis.call('HGET', prefix .. KEY_META, META_EPOCH)) then
    return created
end
if is_numbered then redis.pcall('HSETNX', prefix .. KEY_META, META_SHARDS, shards) end
if (ARGV[5] or '') ~= '' and redis.call('HGET', prefix .. KEY_META, META_PLACE) ~= ARGV[5] then
    redis.pcall('HSET', prefix .. KEY_META, META_PLACE, ARGV[5])
end
-- include: group.lua
if not has_group() then
    redis.call('XGROUP', 'CREATE', stream, 'clairon', '0', 'MKSTREAM')
end
local last = last_generated_id(stream)

local meta = prefix .. KEY_META
local known = redis.call('HMGET', meta, META_EPOCH, META_RUN, META_HISTORY, META_GAP_TO)
local epoch, run, history = known[1], redis.call('INFO', 'server'):match('run_id:(%x+)'), known[3] or ''

-- Appends a generation that follows the id `from`.
local function begin_generation(from)
    local count = math.floor(tonumber(history:match('%d+$') or 0) / STORE_GENERATION_TAGS) + 1
    if count == STORE_GENERATIONS then -- all numbers were used
        epoch, count, history = ARGV[2], 1, ''
    end
    if history == '' then history = '0' end
    local tag = tonumber(run:sub(1, 4), 16) % STORE_GENERATION_TAGS
    history = history .. ' ' .. from .. ' ' .. string.format('%d', count * STORE_GENERATION_TAGS + tag)
    while select(2, history:gsub('%S+', '')) > STORE_HISTORY_WORDS do
        history = history:match('^%S+ %S+ (.*)$')
    end
end

local function is_pending_retry(entry)
    for i = 1, #entry[2], 2 do
        if entry[2][i] == 'retry_users' then
            local value = redis.call('HGET', prefix .. KEY_PENDING, entry[2][2])
            return value and value:match('^%S+') == entry[1]
        end
    end
end

-- This server has started or was promoted. The stream may lack the end of the former generation, and
-- may contain further entries of it soon, so the next generation begins here (entry.h).
--
-- If the append-only file ends inside a transaction, the server truncates it after the last
-- complete command, not before the transaction. The next load executes these commands together with
-- the first transaction after them. So each server start skips a range of ids, which includes the
-- ids of the stream entries that these commands add. Entries in a range that an earlier start
-- skipped are removed: the feed has stored their notifications again. A retry that a pending notification has as its
-- entry remains. trim.lua repairs what these commands have done to other keys (verify_pending.lua).
if run ~= known[2] or history == '' then
    -- The first write frees memory: a store that is full accepts the writes after it.
    local begun = redis.pcall('HDEL', meta, META_RUN)
    if type(begun) == 'table' and begun.err then return begun end
    local skipped_from, skipped_to = history:match('(%S+) %S+$'), known[4]
    if skipped_from and skipped_to then
        local found = redis.call('XRANGE', stream, skipped_from, skipped_to)
        for _, entry in ipairs(found) do
            if entry[1] ~= skipped_from and not is_pending_retry(entry) then
                redis.call('XACK', stream, 'clairon', entry[1])
                redis.call('XDEL', stream, entry[1])
            end
        end
    end
    begin_generation(last)
    local last_ms, now = tonumber(last:match('^%d+')), redis.call('TIME')
    last = string.format('%.0f-0', math.max(last_ms + 1, now[1] * 1000 + math.floor(now[2] / 1000) + 1))
    redis.call('XSETID', stream, last)
    redis.call('HMSET', meta, META_RUN, run, META_HISTORY, history, META_GAP_TO, last, META_EPOCH, epoch, META_VERIFY, '0')
end

-- The newest entries of the control stream, except cut-offs, which may be many.
local function newest_changes()
    local found, before = {}, '+'
    for _ = 1, 8 do
        local page = redis.call('XREVRANGE', prefix .. KEY_CONTROL, before, undone_control(meta), 'COUNT', STORE_NEWEST_CHANGES)
        for _, entry in ipairs(page) do
            if entry[2][2] ~= 'cutoff' and #found < STORE_NEWEST_CHANGES then found[#found + 1] = entry end
            before = '(' .. entry[1]
        end
        if #page < STORE_NEWEST_CHANGES or #found == STORE_NEWEST_CHANGES then break end
    end
    return found
end

-- Clients may have received these membership changes and reloads, so rows must contain their
-- transactions.
local changes = {}
for _, entry in ipairs(newest_changes()) do
    -- An entry has many changes, oldest first, and most are of one transaction.
    for i = #entry[2] - 1, 1, -2 do
        if entry[2][i] == 'xid' and entry[2][i + 1] ~= changes[#changes] and #changes < 2 * STORE_NEWEST_CHANGES then
            changes[#changes + 1] = entry[1]
            changes[#changes + 1] = entry[2][i + 1]
        end
    end
end
-- include: renew_covered.lua
renew_covered(prefix)
local covered = redis.call('XREVRANGE', prefix .. KEY_COVERED, '+', '-', 'COUNT', 1)[1]
local has_first, topic_prefix = redis.call('HEXISTS', meta, META_FIRST), redis.call('HGET', meta, META_TOPIC_PREFIX)
return {epoch, last, has_first, topic_prefix or '',
    shards ~= '1' and stored_position(meta) or '', newest_transactions(stream, meta), changes,
    has_progress(meta) and 1 or 0, undone_count(meta), history, covered and covered[2] or {}}
