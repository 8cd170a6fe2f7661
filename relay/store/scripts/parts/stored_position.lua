-- stored_position.lua: how far a shard has the notifications of the slot.

-- Up to here the shard has all notifications of the slot; '' if it is unknown.
local function stored_position(meta)
    local progress = redis.call('HGET', meta, 'progress')
    local owner = progress and redis.call('HGET', progress, 'owner')
    return owner and redis.call('HGET', progress, 'position:' .. owner) or ''
end
