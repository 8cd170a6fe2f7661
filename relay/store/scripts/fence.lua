-- fence.lua: in a transaction, behind the notes it adds and before it moves the progress: takes them back
-- if they may not be there, as ingest.lua refuses a batch.
-- KEYS: stream, progress. ARGV: prefix, epoch, owner token, how many were added, the position they follow.
local stream, progress, owner, call = KEYS[1], KEYS[2], ARGV[3], redis.call
local state = call('HMGET', progress, 'owner', 'position:' .. owner, 'read:' .. owner)
local is_stream = call('TYPE', stream).ok == 'stream'
local position, refusal = state[2] or '', nil
if call('HGET', ARGV[1] .. KEY_META, 'epoch') ~= ARGV[2] or not is_stream then
    refusal = 'EPOCH the store was emptied, or its stream removed'
elseif state[1] ~= owner then
    refusal = 'FENCED another feed owns this slot now'
elseif position < ARGV[5] then
    refusal = 'BEHIND ' .. position
end
if not refusal then return 1 end
-- They are the newest, as nothing comes in between; where no stream is, none was taken.
if is_stream then
    for _, entry in ipairs(call('XREVRANGE', stream, '+', '-', 'COUNT', ARGV[4]) or {}) do
        call('XDEL', stream, entry[1])
    end
end
-- The progress that is moved now, and by batches that are under way, must not be the slot's any more.
if state[1] == owner then
    local kept = owner .. '-'
    call('HDEL', progress, 'position:' .. kept) -- a store that is full takes no first write that adds
    call('HMSET', progress, 'owner', kept, 'position:' .. kept, position, 'read:' .. kept, state[3] or '')
end
return redis.error_reply(refusal)
