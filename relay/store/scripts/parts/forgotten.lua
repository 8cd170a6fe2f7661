-- forgotten.lua: stream entries that name a user whom `clairon forget` removed, and that others still need. The sorted set
-- KEY_FORGOTTEN has them by the time in ms at which they are deleted: a letter and the entry. Requires `prefix`.
--   r  receipts: deleted when each sink has them
--   c  the control stream, e  ack events
local forgotten = {}
do
    local STREAMS, AGAIN_MS, BATCH = {r = KEY_RECEIPTS, c = KEY_CONTROL, e = KEY_ACK_EVENTS}, 60000, 100

    local function wall_ms()
        local time = redis.call('TIME')
        return time[1] * 1000 + math.floor(time[2] / 1000)
    end

    -- Without a sink, receipts are only read over HTTP.
    local READABLE_MS = 3600000
    local function sink_groups()
        local groups = redis.pcall('XINFO', 'GROUPS', prefix .. KEY_RECEIPTS)
        return groups.err and {} or groups
    end

    local function is_before(entry, other)
        local ms, seq = entry:match('^(%d+)-(%d+)$')
        local other_ms, other_seq = other:match('^(%d+)-(%d+)$')
        return tonumber(ms) < tonumber(other_ms) or ms == other_ms and tonumber(seq) < tonumber(other_seq)
    end

    local function each_sink_has(entry)
        for _, row in ipairs(sink_groups()) do
            local field = {}
            for i = 1, #row, 2 do field[row[i]] = row[i + 1] end
            if is_before(field['last-delivered-id'], entry) or
                #redis.call('XPENDING', prefix .. KEY_RECEIPTS, field.name, entry, entry, 1) > 0 then
                return false
            end
        end
        return true
    end

    local function delete(letter, entry)
        redis.call('XDEL', prefix .. STREAMS[letter], entry)
        redis.call('ZREM', prefix .. KEY_FORGOTTEN, letter .. entry)
    end

    -- Deletes an entry `after` ms from now, and receipts when each sink has them.
    function forgotten.add(letter, entry, after)
        if letter == 'r' and #sink_groups() == 0 then after = READABLE_MS end
        redis.call('ZADD', prefix .. KEY_FORGOTTEN, string.format('%.0f', wall_ms() + after), letter .. entry)
    end

    -- Deletes what is due.
    function forgotten.delete_due()
        local key, now = prefix .. KEY_FORGOTTEN, wall_ms()
        for _, member in ipairs(redis.call('ZRANGEBYSCORE', key, '-inf', string.format('%.0f', now), 'LIMIT', 0, BATCH)) do
            local letter, entry = member:sub(1, 1), member:sub(2)
            if letter ~= 'r' or each_sink_has(entry) then
                delete(letter, entry)
            else
                redis.call('ZADD', key, string.format('%.0f', now + AGAIN_MS), member)
            end
        end
    end

    -- A sink has acknowledged this entry of receipts.
    function forgotten.acknowledged(entry)
        if redis.call('ZSCORE', prefix .. KEY_FORGOTTEN, 'r' .. entry) and each_sink_has(entry) then delete('r', entry) end
    end
end
