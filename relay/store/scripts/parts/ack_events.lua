-- ack_events.lua: pairs that ended, for the in-flight windows of sessions. Requires `call` and `prefix`.

-- The stream is short, because relays read it promptly.
local ACK_EVENTS_MAX = 256

local function pack_text(text)
    return string.char(math.floor(#text / 256), #text % 256) .. text
end

-- Only other relays read ack events, so a single relay does not write them. An unregistered relay reloads its
-- state when it returns.
local function has_other_relays(name)
    local relays = call('ZRANGE', prefix .. KEY_RELAYS, 0, 1)
    return #relays > 1 or #relays == 1 and relays[1] ~= name
end

-- Adds pairs that the relay `name` has acknowledged. A pair is the packed user and the packed id.
local function add_ack_event(name, pairs_text)
    call('XADD', prefix .. KEY_ACK_EVENTS, 'MAXLEN', '~', ACK_EVENTS_MAX, '*', 'by', name, 'acked', pairs_text)
end
