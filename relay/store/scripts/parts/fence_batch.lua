-- fence_batch.lua: the body of fence.lua and fence_large.lua, which have the same arguments.
local stream, progress, owner, call = KEYS[1], KEYS[2], ARGV[3], redis.call
local state = call('HMGET', progress, 'owner', 'position:' .. owner, 'read:' .. owner)
local is_stream = call('TYPE', stream).ok == 'stream'
local position, rejection = state[2] or '', nil
if call('HGET', ARGV[1] .. KEY_META, META_EPOCH) ~= ARGV[2] or not is_stream then
    rejection = 'EPOCH the store was emptied, or its stream removed'
elseif state[1] ~= owner then
    rejection = 'FENCED another feed owns this slot now'
elseif position < ARGV[5] then
    rejection = 'BEHIND ' .. position
end
if not rejection then
    if ARGV[6] then record_large(stream, last_generated_id(stream), tonumber(ARGV[6]), ARGV[7], ARGV[8], 'after', ARGV[9]) end
    return 1
end
-- Inside the transaction, the added stream entries are the newest. Without a stream, no entry was
-- added.
if is_stream then
    local small = tonumber(ARGV[4])
    if ARGV[6] then small = small - call('XDEL', stream, last_generated_id(stream)) end
    for _, entry in ipairs(small > 0 and call('XREVRANGE', stream, '+', '-', 'COUNT', small) or {}) do
        call('XDEL', stream, entry[1])
    end
end
-- This transaction and other transactions in flight will still write `position:<owner>`. After a
-- change of owner, that field is never read.
if state[1] == owner then
    local kept = owner .. '-'
    call('HDEL', progress, 'position:' .. kept) -- a full store rejects a first write that allocates
    call('HMSET', progress, 'owner', kept, 'position:' .. kept, position, 'read:' .. kept, state[3] or '')
end
return redis.error_reply(rejection)
