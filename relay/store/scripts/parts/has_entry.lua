-- has_entry.lua: finds out whether a stream has an entry, without copying the entry.

-- Only XCLAIM with JUSTID returns an id alone, and FORCE claims only an entry that exists. Redis
-- 6.2 and KeyDB do not check a pending entry, so it is released first; its delivery time remains. A
-- store that rejects writes is read.
local function has_entry(stream, entry)
    local pending = redis.pcall('XPENDING', stream, 'clairon', entry, entry, 1)
    local released = pending.err and pending or redis.pcall('XACK', stream, 'clairon', entry)
    if type(released) == 'table' then return #redis.call('XRANGE', stream, entry, entry) > 0 end
    local time = redis.call('TIME')
    local idle = pending[1] and pending[1][3] or 0
    local claimed = redis.call('XCLAIM', stream, 'clairon', 'relay', 0, entry,
        'TIME', string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000) - idle), 'FORCE', 'JUSTID')
    if #claimed > 0 and #pending == 0 then redis.call('XACK', stream, 'clairon', entry) end
    return #claimed > 0
end
