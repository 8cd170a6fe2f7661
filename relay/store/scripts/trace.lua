-- trace.lua: returns the events of a notification in chronological order.
-- KEYS: stream. ARGV: prefix, notification id, its commit time in ms; optionally a user, and the retention of traces in
-- ms.
-- Returns {data or '', stream entry or '', trace, users with a pending acknowledgement, a stream entry that the
-- caller must read for the data and the route, or '', route or '', for a user user_facts.lua}.
local stream, prefix, id = KEYS[1], ARGV[1], ARGV[2]
local call = redis.call

local SCAN_MAX, SCAN_STEP, SCAN_BYTES, CLOCK_SKEW_MS, WAITING_MAX = 5000, 16, 8 * 1024 * 1024, 5000, 1000
-- include: large_entries.lua
-- include: pending_value.lua

local function field(entry, name)
    for i = 1, #entry[2], 2 do
        if entry[2][i] == name then return entry[2][i + 1] end
    end
end

-- include: user_facts.lua

local wanted = ''
local function entry_at(entry_id)
    if large_bytes(stream, entry_id) > STORE_COPIED_BYTES_MAX and has_entry(stream, entry_id) then
        wanted = entry_id
        return {entry_id, {}}
    end
    local entry = call('XRANGE', stream, entry_id, entry_id)[1]
    return entry and field(entry, 'id') == id and entry or nil
end

-- Ids have no index. A notification is stored soon after its commit, so the search starts at the
-- commit time. Large entries are not read.
local function search()
    local from, bytes, read = string.format('%.0f', math.max(tonumber(ARGV[3]) - CLOCK_SKEW_MS, 0)) .. '-0', 0, 0
    local large = next_large(stream, from)
    while read < SCAN_MAX and bytes < SCAN_BYTES do
        local rows = call('XRANGE', stream, from, large and '(' .. large.entry or '+', 'COUNT', SCAN_STEP)
        for _, entry in ipairs(rows) do
            if field(entry, 'id') == id then return entry end
            bytes, from = bytes + bytes_of(entry), '(' .. entry[1]
        end
        if #rows == 0 then
            local found = large and large.id == id and entry_at(large.entry)
            if found or not large then return found end
            from, large = '(' .. large.entry, next_large(stream, large.entry)
        end
        read = read + math.max(#rows, 1)
    end
end

local trace = call('LRANGE', prefix .. KEY_TRACE .. id, 0, -1)
local stored_events = {unpack(trace)}
local stored = trace[1] and trace[1]:match('^stored %d+ 0 (%d+%-%d+) ')
local pending = pending_entry(call('HGET', prefix .. KEY_PENDING, id) or '')
local entry = stored and entry_at(stored) or pending and entry_at(pending) or search()

-- The acks of a pending notification are in its state. The acks of a completed notification are in
-- `acked`.
local waiting, acks = {}, {}
local function read_states(key)
    local cursor = '0'
    repeat
        local page = call('HSCAN', key, cursor, 'COUNT', 500)
        cursor = page[1]
        for i = 1, #page[2], 2 do
            local user, state = page[2][i], page[2][i + 1]
            if state ~= '0' then
                acks[#acks + 1] = 'acked ' .. state .. ' 0 - ' .. user
            elseif #waiting < WAITING_MAX then
                waiting[#waiting + 1] = user
            end
        end
    until cursor == '0' or #waiting >= WAITING_MAX or #acks >= WAITING_MAX
end
read_states(prefix .. KEY_ACK .. id)
read_states(prefix .. KEY_ACKED .. id)

local first = pending or #acks > 0 and entry and entry[1] -- a pending one may have been removed from the stream
if #trace == 0 and first then trace[1] = 'stored ' .. first:match('^%d+') .. ' 0 ' .. first .. ' -' end
for _, event in ipairs(acks) do trace[#trace + 1] = event end
local rows = {}
for i, event in ipairs(trace) do rows[i] = {tonumber(event:match('^%S+ (%d+)')), i, event} end
table.sort(rows, function(a, b) return a[1] < b[1] or a[1] == b[1] and a[2] < b[2] end)
for i, row in ipairs(rows) do trace[i] = row[3] end
local facts = ARGV[4] and user_facts(id, ARGV[4], entry, stored_events, tonumber(ARGV[3]), tonumber(ARGV[5])) or {}
return {entry and field(entry, 'data') or '', entry and entry[1] or '', trace, waiting, wanted,
    entry and field(entry, 'route') or '', facts}
