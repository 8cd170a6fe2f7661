-- sinks.lua: the state of the sinks in a shard, and the consumers of their groups. Requires `prefix`
-- and `group`.
-- The hash KEY_SINKS has the fields `seen:<group>:<consumer>`: the time in ms of a consumer's last
-- heartbeat; `position:<group>`: how far the database of a sink has been written; `marks:<group>`:
-- times in ms, and the entries up to which everything was taken then; `off:<group>`: the sink is
-- switched off; `dropped:<group>`: receipts that were trimmed before a relay has read them, until a
-- relay has counted them.

local receipts, sinks = prefix .. KEY_RECEIPTS, prefix .. KEY_SINKS

local function now_ms()
    local time = redis.call('TIME')
    return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function seen_field(consumer) return 'seen:' .. group .. ':' .. consumer end

-- A group starts at the oldest receipt. It is created again in a store that was emptied.
local function ensure_group()
    local made = redis.pcall('XGROUP', 'CREATE', receipts, group, '0', 'MKSTREAM')
    return type(made) == 'table' and made.err and not made.err:find('BUSYGROUP', 1, true) and made or nil
end

-- Returns the fields of the group by name; nil if it does not exist.
local function group_fields()
    local groups = redis.pcall('XINFO', 'GROUPS', receipts)
    for _, row in ipairs(groups.err and {} or groups) do
        local field = {}
        for i = 1, #row, 2 do field[row[i]] = row[i + 1] end
        if field.name == group then return field end
    end
end

-- The stream's generation (entry.h): ids of receipts are only valid in it.
local function generation()
    local history = redis.call('HGET', prefix .. KEY_META, META_HISTORY)
    return history and history:match('%d+$') or ''
end

-- include: count_in.lua
