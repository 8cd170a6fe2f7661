-- count_pending.lua: returns the number of pending notifications, the oldest commit time, and the length of the error log.
-- KEYS: stream. ARGV: prefix, token of this process's feed, number of the last denials that it has
-- counted.
-- Returns {number, commit time in ms or 0, length of the error log, number of the denials, and the denials: p or e and an owner,
-- or d, and how many}. p are notifications that ingest.lua denied, e are entries trimmed from the error
-- log, and d are pairs that drop.lua ended. The feed that owns the progress receives them until it confirms their number, since a reply may be lost.
local stream, prefix = KEYS[1], ARGV[1]
local call = redis.call
-- include: notifications.lua
-- include: stream_entry.lua

local function read_denied()
    local meta = call('HMGET', prefix .. KEY_META, META_PROGRESS, META_DENIED)
    if not meta[1] or call('HGET', meta[1], 'owner') ~= ARGV[2] then return '', '' end
    local new, read = prefix .. KEY_DENIED, prefix .. KEY_DENIED_READ
    local number = meta[2] or '0'
    if call('EXISTS', read, new) == 0 then return number, '' end
    if number == ARGV[3] then call('DEL', read) end
    if call('EXISTS', read) == 0 and call('EXISTS', new) == 1 then
        local counts = call('HGETALL', new)
        for i = 1, #counts, 2 do call('HSET', read, counts[i], counts[i + 1]) end
        call('DEL', new)
        -- Not a plain count: after a loss of the store it must differ from what the feed has confirmed.
        number = integer_text(math.max(now_ms(), (tonumber(number) or 0) + 1))
        call('HSET', prefix .. KEY_META, META_DENIED, number)
    end
    return number, table.concat(call('HGETALL', read), ' ')
end

local count = call('XPENDING', stream, 'clairon')[1]
-- The delivery time of a pending entry is its commit time (claim), so the entry is not read.
local row = count > 0 and call('XPENDING', stream, 'clairon', '-', '+', 1)[1]
local oldest = row and now_ms() - row[3]
local retried = oldest and oldest_retried(1)[1]
if retried and retried.commit < oldest then oldest = retried.commit end
return {count, integer_text(oldest or 0), call('XLEN', prefix .. KEY_ERRORS), read_denied()}
