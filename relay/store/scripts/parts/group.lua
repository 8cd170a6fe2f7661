-- group.lua: checks whether the stream has its consumer group. Requires `stream`.

local function has_group()
    local groups = redis.pcall('XINFO', 'GROUPS', stream)
    for _, group in ipairs(groups.err and {} or groups) do
        if group[2] == 'clairon' then return true end
    end
    return false
end
