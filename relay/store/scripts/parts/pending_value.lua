-- pending_value.lua: the value of a pending notification in KEY_PENDING: its stream entry, the number
-- of users without an ack, and the fields that are set, separated by blanks: `1795230000000-0 1 bE`.
-- A field is a letter and its value. Fields of a newer release are kept. What scripts read of a rule
-- is here, because they do not read the stream entry at each delivery and ack.
local PENDING_FIELDS = {
    b = 'backoff', -- its letter (STORE_BACKOFF_LETTERS), or '-' without retries
    t = 'ack_timeout', -- in ms, if the rule has one
    a = 'acked', -- its state contains acks
    l = 'is_large', -- it is in KEY_SHARED_PENDING_LIST instead of the lists of its users
    r = 'is_retried',
    x = 'expires', -- a flag: its time is in KEY_DUE
    o = 'open_ended', -- expiration of an open-ended audience in ms
    w = 'owner', -- the owner of its table, if the owner has limits
    -- n for the notification, u also for its users, or '-'; followed by e if it has escalations, and then by p if they
    -- send Web Pushes
    c = 'receipts',
    i = 'origin', -- of its receipts, if it has one user (receipts.lua); the last field but d
    d = 'delivered', -- the first delivery to this user in ms
}
local PENDING_ORDER = {'b', 't', 'a', 'l', 'r', 'x', 'o', 'w', 'c'} -- then i and d

-- Lua formats numbers slowly, and only a few different counts occur.
local count_texts = {}
local function count_text(count)
    local text = count_texts[count]
    if not text then
        text = string.format('%d', count)
        count_texts[count] = text
    end
    return text
end

-- Returns the fields i and d of a value whose field i begins at `from`. They are not parsed with the others, because
-- the origin is long.
local function split_receipt_state(value, from)
    local to = value:find(' ', from + 1, true)
    return value:sub(from + 2, (to or 0) - 1), to and value:sub(to + 2)
end

-- Returns {entry =, left = users without an ack, the fields by name: a text, or true without a value,
-- value = (with an origin), unknown = fields of a newer release}, or false.
local function read_pending(value)
    local to = value:find(' i', 1, true)
    local entry, left, fields = value:sub(1, (to or 0) - 1):match('^(%S+) (%-?%d+)(.*)$')
    if not entry then return false end
    local notification = {entry = entry, left = tonumber(left), unknown = ''}
    if to then
        notification.value = value
        notification.origin, notification.delivered = split_receipt_state(value, to)
    end
    for letter, text in fields:gmatch(' (%a)(%S*)') do
        local name = PENDING_FIELDS[letter]
        if name then
            notification[name] = text == '' or text
        else
            notification.unknown = notification.unknown .. ' ' .. letter .. text
        end
    end
    return notification.backoff and notification
end

local value_parts = {} -- joined in one step, because Lua hashes each byte of each string
local function pending_value(notification)
    local parts, len = value_parts, 3
    parts[1], parts[2], parts[3] = notification.entry, ' ', count_text(notification.left)
    for i = 1, #PENDING_ORDER do
        local letter = PENDING_ORDER[i]
        local set = notification[PENDING_FIELDS[letter]]
        if set then
            if type(set) == 'number' then set = string.format('%d', set) end
            parts[len + 1], parts[len + 2], parts[len + 3] = ' ', letter, set == true and '' or set
            len = len + 3
        end
    end
    if notification.unknown then
        len = len + 1
        parts[len] = notification.unknown
    end
    if notification.origin then
        parts[len + 1], parts[len + 2], len = ' i', notification.origin, len + 2
    end
    if notification.delivered then
        parts[len + 1], parts[len + 2], len = ' d', notification.delivered, len + 2
    end
    return table.concat(parts, '', 1, len)
end

-- include: stored_value.lua

-- Many values have the same part after the stream entry, so this part is parsed only once.
-- after_acks[part][n] is the part after n acks.
local after_acks = {}

-- Returns the value after `count` more acks, false if no ack is missing then, or nil if it is invalid.
local function value_after_acks(value, count)
    local blank = value:find(' ', 1, true) or #value
    local part = value:sub(blank)
    local parts = after_acks[part] or {}
    after_acks[part] = parts
    if parts[count] == nil then
        local notification = read_pending(value)
        if not notification then return nil end
        notification.left, notification.acked = notification.left - count, true
        parts[count] = (notification.left > 0 or notification.open_ended) and
            pending_value(notification):sub(blank) or false
    end
    return parts[count] and value:sub(1, blank - 1) .. parts[count]
end
