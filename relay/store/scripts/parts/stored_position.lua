-- stored_position.lua: reads the slot's progress in a shard.

-- Returns the WAL position up to which the shard has all notifications of the slot; '' if unknown.
local function stored_position(meta)
    local progress = redis.call('HGET', meta, META_PROGRESS)
    local owner = progress and redis.call('HGET', progress, 'owner')
    return owner and redis.call('HGET', progress, 'position:' .. owner) or ''
end

-- A slot that was acquired but does not exist yet has neither a position nor a read LSN.
local function has_progress(meta)
    local progress = redis.call('HGET', meta, META_PROGRESS)
    local owner = progress and redis.call('HGET', progress, 'owner')
    local kept = owner and redis.call('HMGET', progress, 'position:' .. owner, 'read:' .. owner) or {}
    return (kept[1] or '') ~= '' or (kept[2] or '') ~= ''
end
