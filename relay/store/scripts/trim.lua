-- trim.lua: lets go of entries that are older than the retention and that nobody has still to ack.
-- KEYS: stream. ARGV: the oldest time to keep, in ms.
-- Returns the number of entries trimmed.
local stream, keep_from = KEYS[1], ARGV[1] .. '-0'
local call = redis.call

local function is_before(a, b)
    local a_ms, a_seq = a:match('^(%d+)-(%d+)$')
    local b_ms, b_seq = b:match('^(%d+)-(%d+)$')
    a_ms, a_seq, b_ms, b_seq = tonumber(a_ms), tonumber(a_seq), tonumber(b_ms), tonumber(b_seq)
    return a_ms < b_ms or (a_ms == b_ms and a_seq < b_seq)
end

local pending = call('XPENDING', stream, 'clairon')
if pending[1] > 0 and is_before(pending[2], keep_from) then keep_from = pending[2] end
return call('XTRIM', stream, 'MINID', '~', keep_from)
