-- recipients.lua: whether a stream entry, or an entry of the error log, is addressed to a user, and names the user.
-- include: route.lua

local function packed_name(user) return string.char(math.floor(#user / 256), #user % 256) .. user end

-- Returns the audience, the number of targets and the targets of a route.
local function targets_of(route)
    if not route or #route < FRAME_NOTIFICATION_HEAD_SIZE then return '', 0, '' end
    local audience_len = route_number(route, FRAME_NOTIFICATION_AT_AUDIENCE_LEN, FRAME_NOTIFICATION_AT_TOPIC_LEN)
    local from = FRAME_NOTIFICATION_HEAD_SIZE + audience_len +
        route_number(route, FRAME_NOTIFICATION_AT_TOPIC_LEN, FRAME_NOTIFICATION_AT_TARGETS_LEN) +
        route_number(route, FRAME_NOTIFICATION_AT_RULE_LEN, FRAME_NOTIFICATION_AT_RECEIPTS)
    return route_bytes(route, FRAME_NOTIFICATION_HEAD_SIZE, FRAME_NOTIFICATION_HEAD_SIZE + audience_len),
        route_number(route, FRAME_NOTIFICATION_AT_TARGET_COUNT, FRAME_NOTIFICATION_AT_ACK_TIMEOUT),
        route_bytes(route, from, from + route_number(route, FRAME_NOTIFICATION_AT_TARGETS_LEN, FRAME_NOTIFICATION_AT_TARGET_COUNT))
end

-- Returns the target at this byte of the targets, and where the next one begins.
local function target_at(targets, at)
    local next_at = at + 2 + targets:byte(at) * 256 + targets:byte(at + 1)
    return targets:sub(at + 2, next_at - 1), next_at
end

local function is_alone(fields, user)
    if fields.retry_users then return fields.retry_users == packed_name(user) end
    local audience, _, targets = targets_of(fields.route)
    return audience == 'USER' and targets == packed_name(user)
end

local function names_user(fields, user, json_name)
    local packed = packed_name(user)
    return (fields.route or ''):find(packed, 1, true) or (fields.data or ''):find(json_name, 1, true) or
        (fields.retry_users or ''):find(packed, 1, true)
end

-- Returns the route of an entry that no session receives.
local function route_to_nobody(route)
    local audience = targets_of(route)
    local to = FRAME_NOTIFICATION_HEAD_SIZE + #audience
    return route_bytes(route, 0, FRAME_AT_FLAGS) .. '\0\0' ..
        route_bytes(route, FRAME_AT_COMMIT_LSN, FRAME_NOTIFICATION_AT_TOPIC_LEN) .. '\0\0\0\0\0\0\0\0\0\0' ..
        route_bytes(route, FRAME_NOTIFICATION_AT_ACK_TIMEOUT, FRAME_NOTIFICATION_AT_RULE_LEN) .. '\0\0' ..
        route_bytes(route, FRAME_NOTIFICATION_AT_RECEIPTS, to)
end

local function number_bytes(number, count)
    local bytes = ''
    for _ = 1, count do bytes, number = string.char(number % 256) .. bytes, math.floor(number / 256) end
    return bytes
end

-- Returns a route without this target of the audience USER.
local function route_without(route, user)
    local audience, count, targets = targets_of(route)
    local at, kept = 1, {}
    if audience ~= 'USER' then return route end
    while at < #targets do
        local target, next_at = target_at(targets, at)
        if target ~= user then kept[#kept + 1] = targets:sub(at, next_at - 1) end
        at = next_at
    end
    if #kept == count then return route end
    local rest, start = table.concat(kept), route:find(targets, FRAME_NOTIFICATION_HEAD_SIZE, true) - 1
    return route_bytes(route, 0, FRAME_NOTIFICATION_AT_TARGETS_LEN) .. number_bytes(#rest, 4) .. number_bytes(#kept, 4) ..
        route_bytes(route, FRAME_NOTIFICATION_AT_ACK_TIMEOUT, start) .. rest .. route_bytes(route, start + #targets, #route)
end

-- Returns a document without this target, a JSON string. The audience is in the last member, so text of the payload does not
-- matter.
local AUDIENCE = ENVELOPE_AUDIENCE_TEXT .. '"USER"' .. ENVELOPE_TARGETS_TEXT .. '['
local function data_without(data, json_name)
    local from, next_from = nil, data:find(AUDIENCE, 1, true)
    while next_from do from, next_from = next_from, data:find(AUDIENCE, next_from + 1, true) end
    if not from then return data end
    local first = from + #AUDIENCE
    local at, kept = first, {}
    while data:sub(at, at) == '"' do
        local to = at
        repeat
            to = data:find('["\\]', to + 1)
            local is_escape = data:sub(to, to) == '\\'
            if is_escape then to = to + 1 end
        until not is_escape
        if data:sub(at, to) ~= json_name then kept[#kept + 1] = data:sub(at, to) end
        at = to + 1
        if data:sub(at, at) ~= ',' then break end
        at = at + 1
    end
    return data:sub(1, first - 1) .. table.concat(kept, ',') .. data:sub(at)
end
