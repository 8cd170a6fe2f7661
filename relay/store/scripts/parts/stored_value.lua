-- stored_value.lua: reads a value of pending_value.lua without parsing its fields.

local function pending_entry(value) return value:match('^%S+') end
local function is_retried_value(value) return value:find(' r', 1, true) ~= nil end

-- A typical notification has one user, no expiration, one delivery and no receipts. Returns the stream entry of such a
-- value, else nil.
local function entry_before_last_ack(value)
    if value:sub(-5, -2) == ' 1 b' then return value:sub(1, -6) end
    if value:find(' c', 1, true) then return nil end
    return value:match('^(%S+) 1 b%S[ tw%d]*$')
end
