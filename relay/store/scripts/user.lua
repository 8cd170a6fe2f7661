-- user.lua: on which relays a user is connected, and what he has still to acknowledge, for the console.
-- KEYS: stream. ARGV: prefix, user. It looks at RELAYS_MAX relays and PENDING_MAX notifications.
-- Returns a JSON object; times are in ms.
local stream, prefix, user = KEYS[1], ARGV[1], ARGV[2]
local call = redis.call
-- include: delivery.lua
-- include: json.lua
-- include: topic.lua

local RELAYS_MAX, PENDING_MAX = 64, 20
local inbox = prefix .. ':inbox:' .. user

local function relays()
    local found = {}
    for _, relay in ipairs(call('ZREVRANGE', prefix .. ':relays', 0, RELAYS_MAX - 1)) do
        if call('SISMEMBER', prefix .. ':here:' .. relay, user) == 1 then found[#found + 1] = text_of(relay) end
    end
    return array_of(found)
end

local function pending()
    local found = {}
    for _, id in ipairs(call('ZRANGEBYSCORE', inbox, '-inf', '+inf', 'LIMIT', 0, PENDING_MAX)) do
        local message = message_of(id)
        if message then
            local due = call('ZSCORE', prefix .. ':due', id .. ':' .. user)
            found[#found + 1] = string.format('{"id":%s,"since":%s,"topic":%s,"due":%s}', text_of(id),
                message.entry:match('^%d+'), topic_of(fields_at(message.entry).data), due and number_of(due) or 'null')
        end
    end
    return array_of(found)
end

return string.format('{"at":%s,"pending":%s,"relays":%s,"oldest":%s}', number_of(now_ms()),
    number_of(call('ZCARD', inbox)), relays(), pending())
