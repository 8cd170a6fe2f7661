-- fence.lua: runs in a transaction after the entries are added and before the progress moves. Removes the entries again
-- if ingest.lua would have rejected the batch.
-- KEYS: stream, progress, a key that never exists (keys.h). ARGV: prefix, epoch, owner token, number of entries added, the position they follow.
local stream, progress, owner, call = KEYS[1], KEYS[2], ARGV[3], redis.call
local state = call('HMGET', progress, 'owner', 'position:' .. owner, 'read:' .. owner)
local is_stream = call('TYPE', stream).ok == 'stream'
local position, rejection = state[2] or '', nil
if call('HGET', ARGV[1] .. KEY_META, 'epoch') ~= ARGV[2] or not is_stream then
    rejection = 'EPOCH the store was emptied, or its stream removed'
elseif state[1] ~= owner then
    rejection = 'FENCED another feed owns this slot now'
elseif position < ARGV[5] then
    rejection = 'BEHIND ' .. position
end
if not rejection then return 1 end
-- In a transaction they are the newest entries. Without a stream none was added.
if is_stream then
    for _, entry in ipairs(call('XREVRANGE', stream, '+', '-', 'COUNT', ARGV[4]) or {}) do
        call('XDEL', stream, entry[1])
    end
end
-- The rest of this transaction, and transactions in flight, still write `position:<owner>`. With another
-- owner nothing reads that field.
if state[1] == owner then
    local kept = owner .. '-'
    call('HDEL', progress, 'position:' .. kept) -- out of memory, the first write must not allocate
    call('HMSET', progress, 'owner', kept, 'position:' .. kept, position, 'read:' .. kept, state[3] or '')
end
return redis.error_reply(rejection)
