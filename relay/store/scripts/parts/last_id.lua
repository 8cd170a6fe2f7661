-- last_id.lua: reads the last id of a stream.

-- Returns the newest id ever, even if its stream entry was trimmed.
local function last_generated_id(stream)
    if redis.call('EXISTS', stream) == 0 then return '0-0' end
    local info = redis.call('XINFO', 'STREAM', stream)
    for i = 1, #info, 2 do
        if info[i] == 'last-generated-id' then return info[i + 1] end
    end
end
