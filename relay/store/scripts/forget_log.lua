-- forget_log.lua: deletes the entries of a stream of changes, or of receipts, that name only a user; others that name the
-- user are deleted later (forgotten.lua).
-- KEYS: stream. ARGV: prefix, user, letter of the stream: r receipts, c control, e ack events, entry after which to continue.
-- Returns {entry after which the next call continues, '' at the end, number of deleted entries, number of those that remain,
-- time in ms of the newest of these}.
local prefix, user, letter, after, call = ARGV[1], ARGV[2], ARGV[3], ARGV[4], redis.call
-- include: forgotten.lua

local ENTRIES_MAX, BYTES_MAX, STEP = 500, 256 * 1024, 50
-- Relays have read older entries, or read all of their state again.
local READ_MS, REPLAYED_MS = 120000, 86400000

-- Each returns how many users the entry names, and how many times this one.
local readers = {}
function readers.r(fields)
    local all, own = 0, 0
    if fields[1] == 'id' then
        local is_object, receipt = pcall(cjson.decode, fields[4] or '')
        return 1, is_object and receipt.user_id == user and 1 or 0
    end
    for i = 3, #fields, 2 do
        if not ('tda'):find(fields[i], 1, true) or fields[i] == '' then
            if fields[i + 1] ~= '' then all = all + 1 end
            if fields[i + 1] == user then own = own + 1 end
        end
    end
    return all, own
end
function readers.c(fields)
    local all, own = 0, 0
    for i = 1, #fields, 2 do
        if fields[i] == 'change' then all = all + 1 end
        if fields[i] == 'user' and fields[i + 1] == user then own = own + 1 end
    end
    return all, own
end
function readers.e(fields)
    local all, own = 0, 0
    for i = 1, #fields, 2 do
        local packed, at, is_id = fields[i + 1], 1, false
        while (fields[i] == 'acked' or fields[i] == 'gone') and at < #packed do
            local len = packed:byte(at) * 256 + packed:byte(at + 1)
            if not is_id then
                all = all + 1
                if packed:sub(at + 2, at + 1 + len) == user then own = own + 1 end
            end
            at, is_id = at + 2 + len, not is_id
        end
    end
    return all, own
end

local key, deleted, remaining, newest_ms = prefix .. ({r = KEY_RECEIPTS, c = KEY_CONTROL, e = KEY_ACK_EVENTS})[letter], 0, 0, 0
local function visit(row)
    local all, own = readers[letter](row[2])
    if own == 0 then return end
    if all == own and letter ~= 'r' then
        call('XDEL', key, row[1])
        deleted = deleted + 1
        return
    end
    if all == own or letter ~= 'r' then forgotten.add(letter, row[1], letter == 'c' and REPLAYED_MS or letter == 'e' and READ_MS or 0) end
    remaining = remaining + 1
    newest_ms = math.max(newest_ms, tonumber(row[1]:match('^%d+')))
end

local read, bytes, at_end = 0, 0, false
while read < ENTRIES_MAX and bytes < BYTES_MAX and not at_end do
    local rows = call('XRANGE', key, '(' .. after, '+', 'COUNT', STEP)
    for _, row in ipairs(rows) do
        for i = 1, #row[2] do bytes = bytes + #row[2][i] end
        visit(row)
        after, read = row[1], read + 1
    end
    at_end = #rows < STEP
end
if letter == 'r' and at_end then forgotten.delete_due() end
return {at_end and '' or after, deleted, remaining, string.format('%.0f', newest_ms)}
