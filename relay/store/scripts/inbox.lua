-- inbox.lua: returns a page of a user's pending notifications, oldest first.
-- KEYS: stream. ARGV: prefix, user, score after which to read, maximum number of notifications,
-- `all` or `undelivered`, which omits notifications whose ack timeout is running.
-- Returns {score of the last notification read, or '' at the end; stream entries; their scores}.
-- Scores are unique (add_entry in stream_entry.lua).
local stream, prefix, user = KEYS[1], ARGV[1], ARGV[2]
local call = redis.call
-- include: pending_list.lua
-- include: pending_value.lua
local PAGE_BYTES = 256 * 1024

-- A retry that due.lua deferred while the user was absent has no running ack timeout.
local function has_running_timeout(id)
    local due = call('ZSCORE', prefix .. KEY_DUE, id .. ':' .. user)
    return due and tonumber(due) % 1 ~= 0.25
end

local rows, more = pending_list(ARGV[3], tonumber(ARGV[4]))
local entries, scores, last, bytes = {}, {}, '', 0
for i, row in ipairs(rows) do
    last = row.score
    local is_excluded = not row.id or ARGV[5] == 'undelivered' and has_running_timeout(row.id)
    local entry = not is_excluded and pending_entry(call('HGET', prefix .. KEY_PENDING, row.id) or '')
    local found = entry and call('XRANGE', stream, entry, entry)[1]
    if found then
        entries[#entries + 1] = found
        scores[#scores + 1] = row.score
        for _, text in ipairs(found[2]) do bytes = bytes + #text end
        if bytes >= PAGE_BYTES then
            more = more or i < #rows
            break
        end
    end
end
return {more and last or '', entries, scores}
