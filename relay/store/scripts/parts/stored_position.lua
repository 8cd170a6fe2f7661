-- stored_position.lua: reads the slot's progress in a shard.

-- Returns the WAL position up to which the shard has all notifications of the slot; '' if unknown.
local function stored_position(meta)
    local progress = redis.call('HGET', meta, 'progress')
    local owner = progress and redis.call('HGET', progress, 'owner')
    return owner and redis.call('HGET', progress, 'position:' .. owner) or ''
end
