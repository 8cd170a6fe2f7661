-- cutoff.lua: stores a cut-off (wire/cutoff.h) and announces it to the relays.
-- KEYS: stream (selects the slot). ARGV: prefix, digest, time of the newest rejected token (0: now), end.
-- Times are Unix seconds. An earlier cut-off of the same digest is extended, never shortened.
-- Returns the stored value.
local prefix, digest, issued, ends = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local call = redis.call
local cutoffs, order = prefix .. KEY_CUTOFFS, prefix .. KEY_CUTOFF_ENDS
local now = tonumber(call('TIME')[1])
local changes = {}
local DIGITS_MAX = 12 -- relays ignore values with more, and of another format

local function value_of() return string.format('%.0f:%.0f', issued, ends) end
local function remove(each)
    call('HDEL', cutoffs, each)
    call('ZREM', order, each)
end

for _, each in ipairs(call('ZRANGEBYSCORE', order, '-inf', string.format('%.0f', now), 'LIMIT', 0, 100)) do remove(each) end
if issued == 0 then issued = now end
local former = call('HGET', cutoffs, digest)
local former_issued, former_ends = (former or ''):match('^(%d+):(%d+)$')
if former_issued and #former_issued <= DIGITS_MAX and #former_ends <= DIGITS_MAX then
    issued, ends = math.max(issued, tonumber(former_issued)), math.max(ends, tonumber(former_ends))
elseif not former and call('HLEN', cutoffs) >= STORE_CUTOFFS_MAX then
    local first = call('ZRANGE', order, 0, 0)[1]
    if first then
        remove(first)
        changes = {'change', 'cutoff', 'digest', first, 'value', '0:0'}
    end
end
for _, text in ipairs({'change', 'cutoff', 'digest', digest, 'value', value_of()}) do changes[#changes + 1] = text end
call('HSET', cutoffs, digest, value_of())
call('ZADD', order, string.format('%.0f', ends), digest)
call('XADD', prefix .. KEY_CONTROL, 'MAXLEN', '~', STORE_CONTROL_MAX, '*', unpack(changes))
return value_of()
