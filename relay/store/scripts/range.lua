-- range.lua: returns the stream entries after an id, and whether some of them were trimmed.
-- KEYS: stream. ARGV: prefix, id after which to read, maximum number of entries.
-- Returns {0 whole, 1 trimmed or 2 unknown (the stream never reached the id), entries, last id of
-- the entries (without entries, the newest id ever), 1 if more entries may follow}.
local stream, prefix, after = KEYS[1], ARGV[1], ARGV[2]
local call = redis.call
-- include: last_id.lua
-- include: has_entry.lua

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

-- Returns the id of the oldest stream entry, or nil. Each resume needs it, so a large one is copied
-- only once, and then remembered while it is the oldest.
local function oldest_id()
    local large = call('HGET', prefix .. KEY_META, 'oldest_large')
    if large and #call('XRANGE', stream, '-', '(' .. large, 'COUNT', 1) == 0 and has_entry(stream, large) then
        return large
    end
    local oldest = call('XRANGE', stream, '-', '+', 'COUNT', 1)[1]
    if oldest and bytes_of(oldest) >= STORE_LARGE_BYTES then
        redis.pcall('HSET', prefix .. KEY_META, 'oldest_large', oldest[1])
    end
    return oldest and oldest[1]
end

-- A page is limited by its number of stream entries and by PAGE_BYTES. The size of an entry is known
-- only after it was copied, so one entry is read at a time up to the newest large one: at most one
-- is beyond PAGE_BYTES. Small entries are read in steps.
local PAGE_BYTES, STEP = 256 * 1024, 16
local newest_large = call('HGET', prefix .. KEY_META, 'newest_large')
local function page(from, count)
    local found, bytes = {}, 0
    while #found < count and bytes < PAGE_BYTES do
        local step = newest_large and is_before(from, newest_large) and 1 or math.min(STEP, count - #found)
        local some = call('XRANGE', stream, '(' .. from, '+', 'COUNT', step)
        if #some == 0 then return found, 0 end
        for _, entry in ipairs(some) do
            found[#found + 1] = entry
            bytes = bytes + bytes_of(entry)
        end
        from = found[#found][1]
    end
    return found, 1
end

local found, is_cut = page(after, tonumber(ARGV[3]))
local newest = #found > 0 and found[#found][1] or last_generated_id(stream)

local function state()
    if is_before(newest, after) then return UNKNOWN end
    local first, oldest = call('HGET', prefix .. KEY_META, 'first'), oldest_id()
    -- If no stream entry was ever added, no entry was trimmed, even if the last id was raised.
    if not first or oldest == first then return WHOLE end
    if after == '0-0' then return TRIMMED end
    return is_before(after, oldest and id_before(oldest) or newest) and TRIMMED or WHOLE
end

return {state(), found, newest, is_cut}
