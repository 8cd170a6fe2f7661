-- pending_value.lua: the value of a pending notification in KEY_PENDING: its stream entry, the number
-- of users without an ack, and the fields that are set, separated by blanks: `1795230000000-0 1 bE`.
-- A field is a letter and its value:
--   a  its state contains acks
--   b  the letter of the backoff (STORE_BACKOFF_LETTERS), or '-' without retries
--   l  it is in KEY_SHARED_PENDING_LIST instead of the lists of its users
--   o  expiration of an open-ended audience in ms
--   r  it was retried
--   w  the owner of its table, if the owner has limits
--   x  it expires
-- Fields of a newer release are kept.
local PENDING_FLAGS = {a = 'acked', l = 'is_large', r = 'is_retried', x = 'ends'}
local PENDING_FLAG_NAMES = {'a', 'l', 'r', 'x'}

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

-- Returns {entry =, left = users without an ack, backoff =, open_ended =, acked =, is_large =,
-- is_retried =, ends =, owner =, unknown = fields of a newer release}, or false.
local function read_pending(value)
    local entry, left, fields = value:match('^(%S+) (%-?%d+)(.*)$')
    if not entry then return false end
    local notification = {entry = entry, left = tonumber(left), unknown = ''}
    for name, text in fields:gmatch(' (%a)(%S*)') do
        if name == 'b' then
            notification.backoff = text
        elseif name == 'o' then
            notification.open_ended = tonumber(text)
        elseif name == 'w' then
            notification.owner = text
        elseif PENDING_FLAGS[name] then
            notification[PENDING_FLAGS[name]] = true
        else
            notification.unknown = notification.unknown .. ' ' .. name .. text
        end
    end
    return notification.backoff and notification
end

local function pending_value(notification)
    local value = notification.entry .. ' ' .. count_text(notification.left) .. ' b' .. notification.backoff
    for _, name in ipairs(PENDING_FLAG_NAMES) do
        if notification[PENDING_FLAGS[name]] then value = value .. ' ' .. name end
    end
    if notification.open_ended then value = value .. ' o' .. string.format('%d', notification.open_ended) end
    if notification.owner then value = value .. ' w' .. notification.owner end
    return value .. (notification.unknown or '')
end

local function pending_entry(value) return value:match('^%S+') end
local function is_retried_value(value) return value:find(' r', 1, true) ~= nil end

-- A typical notification has one user, no expiration and one delivery. Returns the stream entry of
-- such a value, else nil.
local LAST_ACK = {}
for letter in (STORE_BACKOFF_LETTERS .. '-'):gmatch('.') do LAST_ACK[' 1 b' .. letter] = true end
local function entry_before_last_ack(value)
    if LAST_ACK[value:sub(-5)] then return value:sub(1, -6) end
    return value:match('^(%S+) 1 b%S w%d+$')
end

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
