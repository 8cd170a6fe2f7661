-- hello.lua: makes the store ready for a relay and tells where its stream stands.
-- KEYS: stream. ARGV: prefix, a fresh epoch; the epoch that the relay knows, the newest entry it saw.
-- Returns {epoch, id of the newest entry ever}.
local stream, prefix = KEYS[1], ARGV[1]
-- A stream that was removed is a store that was emptied.
if redis.call('EXISTS', stream) == 0 and redis.call('HDEL', prefix .. ':meta', 'first') == 1 then
    redis.call('HSET', prefix .. ':meta', 'epoch', ARGV[2])
end
-- A store that is full or cannot write its disk can still be read: what is there is not written
-- again. A replica can be read too, but is not what a relay is for.
local made = redis.pcall('HSETNX', prefix .. ':meta', 'epoch', ARGV[2])
if type(made) == 'table' and made.err and
    (made.err:find('READONLY', 1, true) or not redis.call('HGET', prefix .. ':meta', 'epoch')) then
    return made
end
local function has_group()
    local groups = redis.pcall('XINFO', 'GROUPS', stream)
    for _, group in ipairs(groups.err and {} or groups) do
        if group[2] == 'clairon' then return true end
    end
    return false
end
if not has_group() then
    redis.call('XGROUP', 'CREATE', stream, 'clairon', '0', 'MKSTREAM')
end
local info = redis.call('XINFO', 'STREAM', stream)
local last = '0-0'
for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then last = info[i + 1] end
end
local function is_before(a, b)
    local a_ms, a_seq = a:match('^(%d+)-(%d+)$')
    local b_ms, b_seq = b:match('^(%d+)-(%d+)$')
    a_ms, b_ms = tonumber(a_ms), tonumber(b_ms)
    return a_ms < b_ms or (a_ms == b_ms and tonumber(a_seq) < tonumber(b_seq))
end

-- A store that went back, to a replica whose clock may be behind, must not give out ids that are
-- older than what was shown: nobody would look there.
local epoch = redis.call('HGET', prefix .. ':meta', 'epoch')
if ARGV[3] == epoch and is_before(last, ARGV[4]) then
    local set = redis.pcall('XSETID', stream, ARGV[4])
    if not set.err then last = ARGV[4] end
end
return {epoch, last}
