-- trim.lua: trims stream entries that are older than the retention and not pending.
-- KEYS: stream. ARGV: prefix, retention of entries in ms, retention of receipts in ms, maximum bytes of
-- receipts in this shard, then a stream entry that the caller has read (read_entry.lua).
-- Older pending entries move to the end of the stream, as retries without users. Otherwise a
-- pending entry would retain all later entries, because XTRIM removes only the oldest entries.
-- Also forgets the ended pairs of users (ended.lua), and repairs pending notifications (verify_pending.lua).
-- Also removes trimmed entries from the index of large entries, and old receipts.
-- Returns {trimmed entries, 1 if more entries must be moved or removed, trimmed receipts, what the caller must read
-- (read_entry.lua)}.
local stream, prefix = KEYS[1], ARGV[1]
local call = redis.call
-- include: notifications.lua
-- include: stream_entry.lua
-- include: large_backwards.lua
-- include: read_entry.lua
-- include: forgotten.lua
-- include: verify_pending.lua
reading.begin(5)

local MOVES_MAX, MOVED_BYTES, LARGE_MAX = 100, 1024 * 1024, 1000
local keep_ms = now_ms() - tonumber(ARGV[2])

-- Visits some users in each call, and removes those whose last pair was stored long before.
local ENDED_KEEP_MS, ENDED_VISITS = 3600000, 1000
local function forget_ended()
    local page = call('HSCAN', prefix .. KEY_ENDED, call('HGET', prefix .. KEY_META, META_ENDED_CURSOR) or '0', 'COUNT', ENDED_VISITS)
    local users = {}
    for i = 1, #page[2], 2 do
        if tonumber(page[2][i + 1]:match('(%d+)%-%d+!?$')) < now_ms() - ENDED_KEEP_MS then users[#users + 1] = page[2][i] end
    end
    call_chunked(users, 'HDEL', prefix .. KEY_ENDED)
    redis.pcall('HSET', prefix .. KEY_META, META_ENDED_CURSOR, page[1])
end

local function ms_of(entry) return tonumber(entry:match('^(%d+)-')) end

local function is_before(entry, other)
    local ms, seq = entry:match('^(%d+)-(%d+)$')
    local other_ms, other_seq = other:match('^(%d+)-(%d+)$')
    return tonumber(ms) < tonumber(other_ms) or ms == other_ms and tonumber(seq) < tonumber(other_seq)
end

-- include: count_in.lua
-- A call removes up to TRIMMED_MAX entries of receipts, after it has counted these.
local TRIMMED_MAX = 1000

-- The oldest SAMPLES nodes of the stream are measured. The result errs if newer receipts have other sizes.
local SAMPLES = 100
local function count_beyond_bytes(key, count)
    local bytes = tonumber(redis.pcall('MEMORY', 'USAGE', key, 'SAMPLES', SAMPLES)) or 0
    local most = tonumber(ARGV[4])
    return bytes > most and count - math.floor(count * most / bytes) or 0
end

-- Returns the number of these entries that each sink has read.
local function count_read(key, rows)
    local read = {}
    local groups = redis.pcall('XINFO', 'GROUPS', key)
    for _, group in ipairs(groups.err and {} or groups) do
        local field, from, to = {}, 0, #rows
        for i = 1, #group, 2 do field[group[i]] = group[i + 1] end
        while from < to do
            local at = math.ceil((from + to) / 2)
            if is_before(field['last-delivered-id'], rows[at][1]) then to = at - 1 else from = at end
        end
        read[field.name] = from
    end
    return read
end

-- Returns the receipts of the entries from `first` to `last`. Those beyond `rows` are few, and count as one each.
local function sum_of(rows, first, last)
    local sum = 0
    for i = first, last do sum = sum + (rows[i] and count_in(rows[i][2]) or 1) end
    return sum
end

-- Removes receipts beyond their retention or bytes. Those that a sink had not read count in the field
-- `dropped:<group>` of KEY_SINKS. Returns the number, and whether more may have to be removed.
local function trim_receipts()
    local key, keep = prefix .. KEY_RECEIPTS, nil
    local count = call('XLEN', key)
    if count == 0 then return 0, false end
    local first = call('XRANGE', key, '-', '+', 'COUNT', 1)[1][1]
    local keep_receipts_ms = now_ms() - tonumber(ARGV[3])
    if ms_of(first) < keep_receipts_ms then keep = integer_text(keep_receipts_ms) .. '-0' end
    local beyond = keep and 0 or count_beyond_bytes(key, count)
    if not keep and beyond == 0 then return 0, false end

    local rows = call('XRANGE', key, '-', '+', 'COUNT', TRIMMED_MAX)
    local read, trimmed = count_read(key, rows), nil
    if keep then
        trimmed = call('XTRIM', key, 'MINID', '~', keep, 'LIMIT', TRIMMED_MAX)
        if trimmed == 0 then trimmed = call('XTRIM', key, 'MINID', keep) end -- less than a node of the stream
    else
        trimmed = call('XTRIM', key, 'MAXLEN', count - math.min(beyond, TRIMMED_MAX))
    end
    for name, number in pairs(read) do
        if trimmed > number then
            redis.pcall('HINCRBY', prefix .. KEY_SINKS, 'dropped:' .. name, sum_of(rows, number + 1, trimmed))
        end
    end
    return sum_of(rows, 1, trimmed), keep ~= nil or beyond > TRIMMED_MAX
end

-- Removes the entries before an id, or about TRIM_MAX of them: the next call removes the others. Returns the number, and
-- whether more may remain.
local TRIM_MAX = 100000
local function trim_before(id)
    local last = backwards(stream, '(' .. id, '-')()
    local trimmed = call('XTRIM', stream, 'MINID', '~', id, 'LIMIT', TRIM_MAX)
    local is_cut = trimmed > TRIM_MAX / 2
    if not is_cut then trimmed = trimmed + call('XTRIM', stream, 'MINID', id) end -- less than a node of the stream
    -- An emptied stream has entries again: others may remove them.
    if trimmed == 0 then last = (call('HGET', prefix .. KEY_META, META_TRIMMED) or ''):match('^(%S+) %-$') end
    if last then redis.pcall('HSET', prefix .. KEY_META, META_TRIMMED, last .. ' ' .. (oldest_entry(stream) or '-')) end
    return trimmed, is_cut
end

local pending = call('XPENDING', stream, 'clairon', '-', '+', MOVES_MAX)
local old = 0
for _, row in ipairs(pending) do
    if ms_of(row[1]) < keep_ms then old = old + 1 end
end
-- XTRIM runs first: a full store accepts XADD only in a script that has written before.
local trimmed, is_cut = 0, false
if old > 0 then trimmed, is_cut = trim_before(pending[1][1]) end
local moved, bytes = 0, 0
while moved < old and bytes < MOVED_BYTES do
    local entry = pending[moved + 1][1]
    local found, must_wait = reading.entry_at(entry)
    if must_wait or found and not reading.has_data(found, 'entry') then
        reading.want(entry, 'entry')
        break
    end
    moved = moved + 1
    local notification = found and notification_of(found.id)
    if notification and notification.entry == entry then
        bytes = bytes + found.bytes
        replace_entry(found, attempts_of(found), {})
    else
        call('XACK', stream, 'clairon', entry) -- the notification is complete
    end
end
prepared.discard()
local must_verify = verify_pending()
save_notifications()
forget_ended()
forgotten.delete_due()
local old_receipts, has_more = trim_receipts()
if moved < old or old == MOVES_MAX then return {trimmed, 1, old_receipts, reading.wanted} end
if not is_cut then
    local count
    count, is_cut = trim_before(integer_text(keep_ms) .. '-0')
    trimmed = trimmed + count
end
local large = next_large(stream, '0-0')
for _ = 1, LARGE_MAX do
    if not large or has_large(stream, large) then break end
    large = next_large(stream, large.entry)
end
return {trimmed, (has_more or is_cut or must_verify) and 1 or 0, old_receipts, {}}
