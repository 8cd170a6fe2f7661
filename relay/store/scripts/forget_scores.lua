-- forget_scores.lua: removes a user from a sorted set of notifications and users.
-- KEYS: stream. ARGV: prefix, user, kind of the key, cursor of ZSCAN, '0' at the start.
-- Returns {next cursor, '0' at the end, number of members that were removed}.
local prefix, user, kind, call = ARGV[1], ARGV[2], ARGV[3], redis.call
local key = prefix .. kind

local COUNT = '1000'
-- Members are <id>:<user>; an escalation begins with its level.
local at = (kind == KEY_ESCALATIONS and 1 or 0) + FRAME_UUID_TEXT + 1
local page, removed = call('ZSCAN', key, ARGV[4], 'COUNT', COUNT), 0
for i = 1, #page[2], 2 do
    local member = page[2][i]
    if member:sub(at) == ':' .. user then
        removed = removed + call('ZREM', key, member)
        local id = member:sub(1, FRAME_UUID_TEXT)
        if kind == KEY_WEB_PUSH_DUE then
            call('HDEL', prefix .. KEY_WEB_PUSH .. id, 'state ' .. user)
            if call('HINCRBY', prefix .. KEY_WEB_PUSH .. id, 'left', -1) <= 0 then
                call('UNLINK', prefix .. KEY_WEB_PUSH .. id)
                call('ZREM', prefix .. KEY_WEB_PUSH_COMMITS, id)
            end
        end
    end
end
return {page[1], removed}
