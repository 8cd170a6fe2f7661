-- gap.lua: records a gap that was announced to a user, for `clairon why`. The newest ones are kept.
-- KEYS: stream. ARGV: prefix, user, retention of traces in ms, then the text of the gap (store_record_gap).
local GAPS_MAX = 8
local key, time = ARGV[1] .. KEY_GAPS .. ARGV[2], redis.call('TIME')
redis.call('LPUSH', key, time[1] .. string.format('%03d', math.floor(time[2] / 1000)) .. ' ' .. ARGV[4])
redis.call('LTRIM', key, 0, GAPS_MAX - 1)
redis.call('PEXPIRE', key, ARGV[3])
return 1
