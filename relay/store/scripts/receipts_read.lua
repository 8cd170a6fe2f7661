-- receipts_read.lua: reads receipts as a consumer of a sink's group.
-- KEYS: stream of notifications. ARGV: prefix, group, consumer, maximum number of entries, '' for new receipts, or the entry after which the consumer's own pending ones are read again,
-- '1' for the periodic work: heartbeat, receipts of dead consumers, and the state of the group; '2' for
-- the state alone; otherwise '0'. '1' if receipts that no relay has read may be counted one by one.
-- Returns {generation, entry after which more own receipts are pending or '', 1 if receipts of dead
-- consumers were claimed, number of receipts that were trimmed before they were taken, oldest entry of the stream or '',
-- receipts not taken yet or -1 if they were not counted, time in ms of the oldest of them or 0 (these three only with
-- periodic work),
-- {entry, its fields, ..}, 1 if the sink is switched off: then nothing was read}.
local prefix, group, consumer = ARGV[1], ARGV[2], ARGV[3]
local count, after, is_periodic, is_consumer = tonumber(ARGV[4]), ARGV[5], ARGV[6] ~= '0', ARGV[6] == '1'
local may_count = ARGV[7] == '1'
local call = redis.call
-- include: sinks.lua

-- A relay without a heartbeat within DEAD_MS is dead. COUNTED_MAX entries are counted at most.
local DEAD_MS, CLAIMS_MAX, COUNTED_MAX = 10000, 500, 1000
-- The receipts of more than SAMPLE entries are estimated.
local SAMPLE = 16
local MARK_MS, MARKS_MAX = 600000, 8

-- Moves pending receipts of dead consumers to this one, which then reads its own pending receipts
-- again. Removes consumers without any. Returns whether receipts were claimed, and how many were trimmed:
-- Redis 7 does not claim those, but removes them. Other stores claim them, and add() drops them.
local function claim_dead()
    local claimed, trimmed = false, 0
    for _, row in ipairs(call('XINFO', 'CONSUMERS', receipts, group)) do
        local field = {}
        for i = 1, #row, 2 do field[row[i]] = row[i + 1] end
        local seen = tonumber(call('HGET', sinks, seen_field(field.name)) or 0)
        if field.name ~= consumer and seen < now_ms() - DEAD_MS then
            local ids = {}
            for _, pending in ipairs(call('XPENDING', receipts, group, '-', '+', CLAIMS_MAX, field.name)) do
                ids[#ids + 1] = pending[1]
            end
            if #ids > 0 then
                ids[#ids + 1] = 'JUSTID'
                trimmed = trimmed + #ids - 1 - #call('XCLAIM', receipts, group, consumer, 0, unpack(ids))
                claimed = true
            end
            if #ids <= CLAIMS_MAX then
                call('XGROUP', 'DELCONSUMER', receipts, group, field.name)
                call('HDEL', sinks, seen_field(field.name))
            end
        end
    end
    return claimed, trimmed
end

-- Returns the receipts of entries that begin like these.
local function estimate(rows, entries)
    local sum = 0
    for _, row in ipairs(rows) do sum = sum + count_in(row[2]) end
    return #rows > 0 and math.ceil(sum * entries / #rows) or entries
end

-- Redis 7 knows the number of entries, unless the group was moved. Otherwise counting copies them, so it is done
-- seldom, and up to COUNTED_MAX. Returns nil if they were not counted.
local function count_new(field)
    local from = '(' .. field['last-delivered-id']
    if type(field.lag) == 'number' then return estimate(call('XRANGE', receipts, from, '+', 'COUNT', SAMPLE), field.lag) end
    if not may_count then return nil end
    local rows = call('XRANGE', receipts, from, '+', 'COUNT', COUNTED_MAX)
    return estimate(rows, #rows)
end

local function ms_of(entry) return tonumber(entry:match('^%d+')) end

-- Returns the number of receipts that were not taken yet or -1, and the time of the oldest.
local function backlog()
    local field = group_fields()
    if not field then return 0, 0 end
    local first_new = call('XRANGE', receipts, '(' .. field['last-delivered-id'], '+', 'COUNT', 1)[1]
    local first_pending = call('XPENDING', receipts, group)[2]
    local oldest = first_new and ms_of(first_new[1]) or 0
    if first_pending and (oldest == 0 or ms_of(first_pending) < oldest) then oldest = ms_of(first_pending) end
    local new = first_new and count_new(field) or not first_new and 0
    if not new or not first_pending then return new or -1, oldest end
    return new + estimate(call('XRANGE', receipts, first_pending, '+', 'COUNT', math.min(SAMPLE, field.pending)), field.pending), oldest
end

-- Remembers every MARK_MS up to which entry everything was taken, for receipts_rewind.lua.
local function add_mark()
    local field = group_fields()
    if not field then return end
    local marks, last_ms = call('HGET', sinks, 'marks:' .. group) or '', 0
    for ms in marks:gmatch('(%d+) %S+') do last_ms = tonumber(ms) end
    if now_ms() < last_ms + MARK_MS then return end
    local done = call('XPENDING', receipts, group)[2] or field['last-delivered-id']
    marks = marks .. string.format(' %.0f %s', now_ms(), done)
    while select(2, marks:gsub('%S+', '')) > 2 * MARKS_MAX do marks = marks:gsub('^ %S+ %S+', '', 1) end
    redis.pcall('HSET', sinks, 'marks:' .. group, marks)
end

local dropped, entries, more = 0, {}, ''
local function read(from)
    return redis.pcall('XREADGROUP', 'GROUP', group, consumer, 'COUNT', count, 'STREAMS', receipts, from)
end

-- A pending entry that was trimmed has no fields: it is dropped. One with other fields is of a newer release, and
-- remains pending until a relay of that release claims it.
local function add(rows)
    for _, row in ipairs(rows) do
        local first = row[2] and row[2][1]
        if first == 'id' or first == 'n' then
            entries[#entries + 1], entries[#entries + 2] = row[1], row[2]
        elseif not first then
            call('XACK', receipts, group, row[1])
            dropped = dropped + 1
        end
    end
end

-- A sink that is switched off reads nothing, on no relay.
local is_off = call('HEXISTS', sinks, 'off:' .. group) == 1
if is_off then count = 0 end
local has_claimed = false
if count > 0 then
    local from = after == '' and '>' or after
    local reply = read(from)
    if reply and reply.err and reply.err:find('NOGROUP', 1, true) then
        local failed = ensure_group()
        if failed then return failed end
        reply = read(from)
    end
    if reply and reply.err then return reply end
    local rows = reply and reply[1] and reply[1][2] or {}
    add(rows)
    if after ~= '' and #rows == count then more = rows[#rows][1] end
end
if is_consumer and not is_off then
    -- In a store that rejects writes no consumer has a heartbeat, so none is dead.
    local heartbeat = redis.pcall('HSET', sinks, seen_field(consumer), string.format('%.0f', now_ms()))
    if count > 0 and type(heartbeat) ~= 'table' then
        local trimmed
        has_claimed, trimmed = claim_dead()
        dropped = dropped + trimmed
    end
    add_mark()
end
if is_periodic then
    -- Counted by the script that trims the stream, for the first relay that reads it.
    local trimmed = call('HGET', sinks, 'dropped:' .. group)
    if trimmed and type(redis.pcall('HDEL', sinks, 'dropped:' .. group)) == 'number' then dropped = dropped + tonumber(trimmed) end
end
local first, untaken, oldest = '', 0, 0
if is_periodic then
    local row = redis.pcall('XRANGE', receipts, '-', '+', 'COUNT', 1)[1]
    first = type(row) == 'table' and row[1] or ''
    untaken, oldest = backlog()
end
return {generation(), more, has_claimed and 1 or 0, dropped, first, untaken, oldest, entries, is_off and 1 or 0}
