-- range.lua: returns the stream entries after an id, and whether some of them were trimmed.
-- KEYS: stream. ARGV: prefix, id after which to read, maximum number of entries.
-- Returns {0 whole, 1 trimmed or 2 unknown (the stream never reached the id), entries, newest id
-- ever, 1 if more entries may follow}.
local stream, prefix, after = KEYS[1], ARGV[1], ARGV[2]
local call = redis.call
-- include: last_id.lua

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

local newest = last_generated_id(stream)

local function state()
    if is_before(newest, after) then return UNKNOWN end
    local oldest = call('XRANGE', stream, '-', '+', 'COUNT', 1)[1]
    local first = call('HGET', prefix .. KEY_META, 'first')
    -- If no stream entry was ever added, no entry was trimmed, even if the last id was raised.
    if not first or (oldest and oldest[1] == first) then return WHOLE end
    if after == '0-0' then return TRIMMED end
    return is_before(after, oldest and id_before(oldest[1]) or newest) and TRIMMED or WHOLE
end

-- A page is limited by its number of stream entries and by PAGE_BYTES.
local PAGE_BYTES, STEP = 256 * 1024, 16

local function page(from, count)
    local found, bytes = {}, 0
    while #found < count and bytes < PAGE_BYTES do
        local some = call('XRANGE', stream, '(' .. from, '+', 'COUNT', math.min(STEP, count - #found))
        if #some == 0 then return found, 0 end
        for _, entry in ipairs(some) do
            found[#found + 1] = entry
            for _, text in ipairs(entry[2]) do bytes = bytes + #text end
        end
        from = found[#found][1]
    end
    return found, 1
end

local known = state()
if known == UNKNOWN then return {known, {}, newest, 0} end
local found, is_cut = page(after, tonumber(ARGV[3]))
return {known, found, newest, is_cut}
