-- route.lua: reads a notification's frame header, which stream entries contain in the field
-- `route`.

-- These functions read the bytes between two offsets, as a string and as a big-endian number.
local function route_bytes(route, from, to) return route:sub(from + 1, to) end
local function route_number(route, from, to)
    local number = 0
    for i = from + 1, to do number = number * 256 + route:byte(i) end
    return number
end

-- include: route_flag.lua

local NO_BYTES = string.rep('\0', FRAME_AT_ORDINAL - FRAME_AT_COMMIT_LSN) -- an LSN or a time that is absent

local function is_from_commit(route) return route_bytes(route, FRAME_AT_COMMIT_LSN, FRAME_AT_ORDINAL) ~= NO_BYTES end
local function commit_ms(route)
    return math.floor(route_number(route, FRAME_NOTIFICATION_AT_COMMIT_US, FRAME_NOTIFICATION_AT_EXPIRES_US) / 1000)
end
-- Returns the owner of the table; 0 for an owner without limits.
local function table_owner(route)
    return route_number(route, FRAME_NOTIFICATION_AT_OWNER, FRAME_NOTIFICATION_AT_RULE_LEN)
end
-- Returns 0 if the notification does not expire.
local function expires_ms(route)
    if route_bytes(route, FRAME_NOTIFICATION_AT_EXPIRES_US, FRAME_NOTIFICATION_AT_PRIORITY) == NO_BYTES then return 0 end
    return math.floor(route_number(route, FRAME_NOTIFICATION_AT_EXPIRES_US, FRAME_NOTIFICATION_AT_PRIORITY) / 1000)
end

-- Returns the text of the notification's Web Push; nil: none, or it cannot be sent.
local function web_push_text(route)
    if math.floor(route:byte(FRAME_AT_FLAGS + 1) / (FRAME_WEB_PUSH / 256)) % 2 == 0 then return nil end
    local from = FRAME_NOTIFICATION_HEAD_SIZE + 2 +
        route_number(route, FRAME_NOTIFICATION_AT_AUDIENCE_LEN, FRAME_NOTIFICATION_AT_TOPIC_LEN) +
        route_number(route, FRAME_NOTIFICATION_AT_TOPIC_LEN, FRAME_NOTIFICATION_AT_TARGETS_LEN) +
        route_number(route, FRAME_NOTIFICATION_AT_TARGETS_LEN, FRAME_NOTIFICATION_AT_TARGET_COUNT) +
        route_number(route, FRAME_NOTIFICATION_AT_RULE_LEN, FRAME_NOTIFICATION_AT_RECEIPTS)
    local len = #route - from
    return len > 0 and len <= STORE_WEB_PUSH_MAX and route:sub(from + 1) or nil
end

-- Returns where the topic of a route begins and ends, or nil.
local function topic_at(route)
    if #route < FRAME_NOTIFICATION_HEAD_SIZE then return nil end
    local from = FRAME_NOTIFICATION_HEAD_SIZE +
        route_number(route, FRAME_NOTIFICATION_AT_AUDIENCE_LEN, FRAME_NOTIFICATION_AT_TOPIC_LEN)
    return from, from + route_number(route, FRAME_NOTIFICATION_AT_TOPIC_LEN, FRAME_NOTIFICATION_AT_TARGETS_LEN)
end
