-- pending_page.lua: returns a page of a user's pending notifications, oldest first, and of those that
-- ended before a device had room for them.
-- KEYS: stream. ARGV: prefix, user, score after which to read, last score to read, maximum number of
-- notifications, the score after which the device has received none, or '' if it has received all,
-- and a selection among the notifications up to that score: `all`, `undelivered`, which omits
-- notifications whose ack timeout is running, or `ended`, which omits all pending notifications.
-- Returns {score of the last notification read, or '' at the end; stream entries; their scores; by
-- entry: 0 pending, 1 acknowledged, 2 ended otherwise; 0, or 1 if not all that ended are known;
-- number of notifications that ended and that the stream no longer contains; a large entry or ''}.
-- The caller reads a large entry: it is the only one of its page.
-- Scores are unique (add_entry in stream_entry.lua).
local stream, prefix, user = KEYS[1], ARGV[1], ARGV[2]
local call = redis.call
-- include: pending_list.lua
-- include: stored_value.lua
-- include: large.lua
local PAGE_BYTES = 256 * 1024
local PENDING, ACKED, ENDED = 0, 1, 2
local received, last_score, what = ARGV[6], ARGV[4], ARGV[7]

-- Most pages need none of the functions of these three parts, and to define them costs more than to read a row.
local large_bytes_of, entry_exists = function() return 0 end, nil
if call('EXISTS', large_key(stream)) == 1 then
-- include: large_entries.lua
    large_bytes_of, entry_exists = large_bytes, has_entry
end

local function is_excluded() return false end
if what == 'undelivered' then
-- include: due_score.lua
    function is_excluded(row)
        if received ~= '' and tonumber(row.score) > tonumber(received) then return false end
        local due = call('ZSCORE', prefix .. KEY_DUE, row.id .. ':' .. user)
        return due and due_score.has_running_timeout(tonumber(due))
    end
end

local rows, more, is_known = {}, false, true
if what ~= 'ended' then rows, more = pending_list(ARGV[3], last_score, tonumber(ARGV[5])) end
if received ~= '' then
    local function score_of(entry)
        local ms, seq = entry:match('^(%d+)-(%d+)')
        return tonumber(ms) * STORE_SCORES_PER_MS + math.min(tonumber(seq), STORE_SCORES_PER_MS - 1)
    end

    -- Returns the rows {entry, score, state} of the pairs that ended, after `after` and up to `last`,
    -- without those in `pending`, and whether all of them are known.
    local function ended_rows(after, last, pending)
        local text = call('HGET', prefix .. KEY_ENDED, user)
        local rows, seen, known_after = {}, {}, nil
        for _, row in ipairs(pending) do seen[tonumber(row.score)] = true end -- redriven
        for entry, mark in (text or ''):gmatch('([%d-]+)(!?)') do
            local score = score_of(entry)
            if not known_after then
                known_after = score
            elseif score > after and score <= last and not seen[score] then
                seen[score] = true
                rows[#rows + 1] = {entry = entry, score = string.format('%.0f', score), state = mark == '' and ACKED or ENDED}
            end
        end
        return rows, known_after ~= nil and known_after <= after
    end

    local after = math.max(tonumber(received), tonumber(ARGV[3]))
    local found
    found, is_known = ended_rows(after, more and tonumber(rows[#rows].score) or tonumber(last_score), rows)
    if #found > 0 then
        for _, row in ipairs(found) do rows[#rows + 1] = row end
        table.sort(rows, function(a, b) return tonumber(a.score) < tonumber(b.score) end)
    end
end

local entries, scores, states, last, bytes, lost, large = {}, {}, {}, '', 0, 0, ''
for i, row in ipairs(rows) do
    local entry = row.entry
    if row.id and not is_excluded(row) then entry = pending_entry(call('HGET', prefix .. KEY_PENDING, row.id) or '') end
    local is_beyond = entry and bytes + large_bytes_of(stream, entry) > PAGE_BYTES
    if is_beyond and #entries > 0 then
        more = true
        break
    end
    last = row.score
    if is_beyond and entry_exists(stream, entry) then
        scores[1], states[1], large, more = row.score, row.state or PENDING, entry, more or i < #rows
        break
    end
    local found = entry and not is_beyond and call('XRANGE', stream, entry, entry)[1]
    if found then
        entries[#entries + 1], scores[#scores + 1], states[#states + 1] = found, row.score, row.state or PENDING
        bytes = bytes + bytes_of(found)
        if bytes >= PAGE_BYTES then
            more = more or i < #rows
            break
        end
    elseif row.entry then
        lost = lost + 1
    end
end
return {more and last or '', entries, scores, states, is_known and 0 or 1, lost, large}
