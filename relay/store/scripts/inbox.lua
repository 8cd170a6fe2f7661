-- inbox.lua: returns a page of a user's pending notifications, oldest first.
-- KEYS: stream. ARGV: prefix, user, score after which to read, maximum number of notifications,
-- `all` or `undelivered`, which omits notifications whose ack timeout is running.
-- Returns {score of the last notification read, or '' at the end; stream entries; their scores; a
-- large entry or ''}. The caller reads a large entry: it is the only one of its page.
-- Scores are unique (add_entry in stream_entry.lua).
local stream, prefix, user = KEYS[1], ARGV[1], ARGV[2]
local call = redis.call
-- include: pending_list.lua
-- include: pending_value.lua
-- include: large_entries.lua
local PAGE_BYTES = 256 * 1024

-- A retry that due.lua deferred (the user was absent) or throttled has no running ack timeout.
local function has_running_timeout(id)
    local due = call('ZSCORE', prefix .. KEY_DUE, id .. ':' .. user)
    local fraction = due and tonumber(due) % 1
    return due and fraction ~= 0.25 and fraction ~= 0.75
end

local rows, more = pending_list(ARGV[3], tonumber(ARGV[4]))
local entries, scores, last, bytes, large = {}, {}, '', 0, ''
for i, row in ipairs(rows) do
    local is_excluded = not row.id or ARGV[5] == 'undelivered' and has_running_timeout(row.id)
    local entry = not is_excluded and pending_entry(call('HGET', prefix .. KEY_PENDING, row.id) or '')
    local is_beyond = entry and bytes + large_bytes(stream, entry) > PAGE_BYTES
    if is_beyond and #entries > 0 then
        more = true
        break
    end
    last = row.score
    if is_beyond and has_entry(stream, entry) then
        scores[1], large, more = row.score, entry, more or i < #rows
        break
    end
    local found = entry and not is_beyond and call('XRANGE', stream, entry, entry)[1]
    if found then
        entries[#entries + 1] = found
        scores[#scores + 1] = row.score
        bytes = bytes + bytes_of(found)
        if bytes >= PAGE_BYTES then
            more = more or i < #rows
            break
        end
    end
end
return {more and last or '', entries, scores, large}
