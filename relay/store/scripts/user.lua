-- user.lua: returns the relays to which a user is connected, and the user's pending notifications,
-- for the console.
-- KEYS: stream. ARGV: prefix, user. Reads up to RELAYS_MAX relays, and one notification per
-- returned row.
-- Returns a JSON object; times are in ms.
local stream, prefix, user = KEYS[1], ARGV[1], ARGV[2]
local call = redis.call
-- include: json.lua
-- include: notifications.lua
-- include: topic.lua

local RELAYS_MAX, PENDING_MAX = 64, 1000
-- include: pending_list.lua
local rows = pending_list('-inf', '+inf', PENDING_MAX)

local function relays()
    local found = {}
    for _, relay in ipairs(call('ZREVRANGE', prefix .. KEY_RELAYS, 0, RELAYS_MAX - 1)) do
        if call('SISMEMBER', prefix .. KEY_PRESENCE .. relay, user) == 1 then found[#found + 1] = text_of(relay) end
    end
    return array_of(found)
end

-- The pending list may be longer than the list.
local count, has_shared = 0, call('EXISTS', prefix .. KEY_SHARED_PENDING_LIST) == 1
for _, row in ipairs(rows) do count = count + (row.id and 1 or 0) end
if not has_shared then count = call('ZCARD', prefix .. KEY_PENDING_LIST .. user) end

local function pending()
    local found = {}
    for i = 1, math.min(#rows, STORE_PENDING_ROWS) do
        local id = rows[i].id
        local notification = id and notification_of(id)
        if notification then
            local due = call('ZSCORE', prefix .. KEY_DUE, id .. ':' .. user)
            local entry = notification.entry
            found[#found + 1] = string.format('{"id":%s,"since":%s,"topic":%s,"due":%s}', text_of(id),
                entry:match('^%d+'), topic_of(fields_at(entry)), due and number_of(due) or 'null')
        end
    end
    return array_of(found)
end

return string.format('{"at":%s,"pending":%s,"relays":%s,"oldest":%s}', number_of(now_ms()),
    number_of(count), relays(), pending())
