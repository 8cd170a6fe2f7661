-- inbox.lua: what a user has still to acknowledge, oldest first.
-- KEYS: stream. ARGV: prefix, user, score after which to read, how many at most.
-- Returns {score of the last one looked at or '' when there are no more, entries}.
local stream, prefix, user = KEYS[1], ARGV[1], ARGV[2]
local call = redis.call

local rows = call('ZRANGEBYSCORE', prefix .. ':inbox:' .. user, '(' .. ARGV[3], '+inf',
    'WITHSCORES', 'LIMIT', 0, ARGV[4])
local entries, last = {}, ''
for i = 1, #rows, 2 do
    last = rows[i + 1]
    local entry = call('HGET', prefix .. ':pending', rows[i])
    local found = entry and call('XRANGE', stream, entry, entry)[1]
    if found then
        entries[#entries + 1] = found
    end
end
return {last, entries}
