-- overview.lua: returns the store's state for the console: counts, relays, oldest pending
-- notifications.
-- KEYS: stream. ARGV: prefix. Reads up to RELAYS_MAX relays, and one stream entry per returned row, unless it is large.
-- Returns a JSON object; times are in ms. `server` is the same for shards on one server.
local stream, prefix = KEYS[1], ARGV[1]
local call = redis.call
-- include: json.lua
-- include: notifications.lua
-- include: stream_entry.lua
-- include: group.lua
-- include: topic.lua

local RELAYS_MAX = 64
local now = now_ms()

local function relays()
    local found = {}
    local rows = call('ZREVRANGE', prefix .. KEY_RELAYS, 0, RELAYS_MAX - 1, 'WITHSCORES')
    for i = 1, #rows, 2 do
        found[#found + 1] = string.format('{"name":%s,"silent":%s,"users":%s}', text_of(rows[i]),
            number_of(math.max(0, now - tonumber(rows[i + 1]))),
            number_of(call('SCARD', prefix .. KEY_PRESENCE .. rows[i])))
    end
    return array_of(found)
end

-- The relays that serve a sink, with the time since their last heartbeat.
local function sinks()
    local found = {}
    local fields = call('HGETALL', prefix .. KEY_SINKS)
    for i = 1, #fields, 2 do
        local name, relay = fields[i]:match('^seen:(%a+):(.*)$')
        if name then
            found[#found + 1] = string.format('{"name":%s,"relay":%s,"silent":%s}', text_of(name), text_of(relay),
                number_of(math.max(0, now - tonumber(fields[i + 1]))))
        end
    end
    return array_of(found)
end

-- Reads an entry once.
local read = {}
local function fields_of(entry)
    read[entry] = read[entry] or fields_at(entry)
    return read[entry]
end

-- Stream entries are in storage order, but the age of a retry is measured from the commit.
local function oldest_pending()
    local ids, commits, found = {}, {}, {}
    local function add(id, commit)
        if not commits[id] then ids[#ids + 1], commits[id] = id, commit end
    end
    for _, retried in ipairs(oldest_retried(STORE_OVERVIEW_ROWS)) do add(retried.id, retried.commit) end
    for _, row in ipairs(call('XPENDING', stream, 'clairon', '-', '+', STORE_OVERVIEW_ROWS)) do
        local fields = fields_of(row[1])
        if fields.id and fields.route then add(fields.id, commit_ms(fields.route)) end
    end
    table.sort(ids, function(a, b) return commits[a] < commits[b] end)
    for i = 1, math.min(#ids, STORE_OVERVIEW_ROWS) do
        local id, notification = ids[i], notification_of(ids[i])
        if notification then
            local expires = call('ZSCORE', prefix .. KEY_DUE, id .. ':')
            found[#found + 1] = string.format('{"id":%s,"since":%s,"topic":%s,"users":%s,"open":%s,"expires":%s}',
                text_of(id), integer_text(commits[id]), topic_of(fields_of(notification.entry)),
                number_of(notification.left), notification.open_ended and 'true' or 'false',
                expires and number_of(expires) or 'null')
        end
    end
    return array_of(found)
end

local memory, server = call('INFO', 'memory'), call('INFO', 'server')
return string.format('{"at":%s,"server":%s,"entries":%s,"pending":%s,"errors":%s,"memory":%s,"memory_max":%s,' ..
    '"relays":%s,"sinks":%s,"oldest":%s}', number_of(now), text_of(server:match('run_id:(%x+)') or ''), number_of(call('XLEN', stream)),
    number_of(call('HLEN', prefix .. KEY_PENDING)), number_of(call('XLEN', prefix .. KEY_ERRORS)),
    number_of(memory:match('used_memory:(%d+)')), number_of(memory:match('maxmemory:(%d+)')),
    relays(), sinks(), has_group() and oldest_pending() or '[]')
