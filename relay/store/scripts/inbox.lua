-- inbox.lua: what a user has still to acknowledge, oldest first.
-- KEYS: stream. ARGV: prefix, user, score after which to read, how many at most, `all` or
-- `unshown`: without what was shown and has time left for its ack.
-- Returns {score of the last one looked at or '' when there are no more, entries, their scores}; no two
-- have one score (add_entry in stream_entry.lua).
local stream, prefix, user = KEYS[1], ARGV[1], ARGV[2]
local call = redis.call
local PAGE_BYTES = 256 * 1024 -- a page ends when it has grown heavy

-- One that came to be due while nobody was there, and was put off (due.lua), has none.
local function has_time(id)
    local due = call('ZSCORE', prefix .. KEY_DUE, id .. ':' .. user)
    return due and tonumber(due) % 1 ~= 0.25
end

local rows = call('ZRANGEBYSCORE', prefix .. KEY_INBOX .. user, '(' .. ARGV[3], '+inf',
    'WITHSCORES', 'LIMIT', 0, ARGV[4])
local entries, scores, last, bytes = {}, {}, '', 0
for i = 1, #rows, 2 do
    last = rows[i + 1]
    local is_left_out = ARGV[5] == 'unshown' and has_time(rows[i])
    local entry = not is_left_out and (call('HGET', prefix .. KEY_PENDING, rows[i]) or ''):match('^%S+')
    local found = entry and call('XRANGE', stream, entry, entry)[1]
    if found then
        entries[#entries + 1] = found
        scores[#scores + 1] = rows[i + 1]
        for _, text in ipairs(found[2]) do bytes = bytes + #text end
        if bytes >= PAGE_BYTES then break end
    end
end
-- Fewer than were asked for, and all were looked at: no more follow.
if #rows < 2 * tonumber(ARGV[4]) and last == rows[#rows] then last = '' end
return {last, entries, scores}
