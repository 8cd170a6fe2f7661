-- fence.lua: ends a transaction that added notes: takes them back if their feed lost the slot.
-- KEYS: stream, progress. ARGV: prefix, epoch, owner token, how many were added.
local stream, call = KEYS[1], redis.call
local is_other = call('HGET', ARGV[1] .. ':meta', 'epoch') ~= ARGV[2]
if call('HGET', KEYS[2], 'owner') ~= ARGV[3] then
    -- They are the newest, as nothing comes in between; a stream that is missing took none.
    for _, entry in ipairs(call('XREVRANGE', stream, '+', '-', 'COUNT', ARGV[4]) or {}) do
        call('XDEL', stream, entry[1])
    end
    if not is_other then return redis.error_reply('FENCED another feed owns this slot now') end
end
if is_other then return redis.error_reply('EPOCH the store was emptied') end
return 1
