-- range.lua: returns the stream entries after an id, and whether some of them were trimmed.
-- KEYS: stream. ARGV: prefix, id after which to read, maximum number of entries.
-- Returns {0 whole, 1 trimmed or 2 unknown (the stream never reached the id), entries, last id of
-- the entries (without entries, the newest id ever), 1 if more entries may follow, a large entry or ''}.
-- A large entry is the first one after the id, and the caller reads it: the page has no others.
local stream, prefix, after = KEYS[1], ARGV[1], ARGV[2]
local call = redis.call
-- include: last_id.lua
-- include: large_backwards.lua

local function parts(id)
    local ms, seq = id:match('^(%d+)-(%d+)$')
    return tonumber(ms), tonumber(seq)
end

local function is_before(a, b)
    local a_ms, a_seq = parts(a)
    local b_ms, b_seq = parts(b)
    return a_ms < b_ms or (a_ms == b_ms and a_seq < b_seq)
end

-- Returns the highest id below `id`.
local function id_before(id)
    local ms, seq = parts(id)
    if seq == 0 then return string.format('%.0f-18446744073709551615', ms - 1) end
    return string.format('%.0f-%.0f', ms, seq - 1)
end

local WHOLE, TRIMMED, UNKNOWN = 0, 1, 2

-- A page is limited by its number of stream entries and by PAGE_BYTES. Small entries are read in
-- steps. A large entry that exceeds the rest of the page is left to the next page. There the relay
-- reads it without a script, which would copy it several times.
local PAGE_BYTES, STEP = 256 * 1024, 16
local function page(from, count)
    local found, bytes, large = {}, 0, next_large(stream, from)
    while #found < count and bytes < PAGE_BYTES do
        local some = call('XRANGE', stream, '(' .. from, large and '(' .. large.entry or '+', 'COUNT',
            math.min(STEP, count - #found))
        if #some == 0 then
            if not large then return found, 0, '' end
            if has_large(stream, large) then
                if bytes + large.bytes > PAGE_BYTES then return found, 1, #found == 0 and large.entry or '' end
                some = call('XRANGE', stream, large.entry, large.entry)
            end
            large = next_large(stream, large.entry)
        end
        for _, entry in ipairs(some) do
            found[#found + 1] = entry
            bytes = bytes + bytes_of(entry)
        end
        from = #found > 0 and found[#found][1] or from
    end
    return found, 1, ''
end

local found, is_cut, large = page(after, tonumber(ARGV[3]))
local newest = #found > 0 and found[#found][1] or last_generated_id(stream)

local function state()
    if is_before(newest, after) then return UNKNOWN end
    local known = call('HMGET', prefix .. KEY_META, META_FIRST, META_TRIMMED, META_FORGOTTEN)
    local first, oldest = known[1], oldest_entry(stream)
    local last, kept = (known[2] or ''):match('^(%S+) (%S+)$')
    -- forget_stream.lua has deleted older entries, of a single user: they were not trimmed.
    local was, is = (known[3] or ''):match('^(%S+) (%S+)$')
    if is and is == oldest then oldest = was end
    -- If no stream entry was ever added, no entry was trimmed, even if the last id was raised.
    if not first or oldest == first then return WHOLE end
    if (kept == '-' or kept and kept == oldest) and not is_before(after, last) then return WHOLE end
    -- Entries were removed, maybe by somebody else: those between `after` and the oldest entry may have existed.
    if after == '0-0' then return TRIMMED end
    return is_before(after, oldest and id_before(oldest) or newest) and TRIMMED or WHOLE
end

return {state(), found, newest, is_cut, large}
