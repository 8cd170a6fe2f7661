-- hello.lua: makes the store ready for a relay and tells where its stream stands.
-- KEYS: stream. ARGV: prefix, a fresh epoch.
-- Returns {epoch, id of the newest entry ever}.
local stream, prefix = KEYS[1], ARGV[1]
-- A stream that was removed is a store that was emptied.
if redis.call('EXISTS', stream) == 0 and redis.call('HDEL', prefix .. ':meta', 'first') == 1 then
    redis.call('HSET', prefix .. ':meta', 'epoch', ARGV[2])
end
local made = redis.pcall('XGROUP', 'CREATE', stream, 'clairon', '0', 'MKSTREAM')
if type(made) == 'table' and made.err and not made.err:find('BUSYGROUP', 1, true) then
    return made
end
redis.call('HSETNX', prefix .. ':meta', 'epoch', ARGV[2])
local info = redis.call('XINFO', 'STREAM', stream)
local last = '0-0'
for i = 1, #info, 2 do
    if info[i] == 'last-generated-id' then last = info[i + 1] end
end
return {redis.call('HGET', prefix .. ':meta', 'epoch'), last}
