-- pending_list.lua: reads a user's pending notifications: those of the user's list, and those to
-- large audiences, which are in one list for all users. Requires `call`, `prefix` and `user`.

-- Of the list for all users at least this many are read: they may not be pending for the user, and each costs little.
local SHARED_MIN = 16

-- Returns up to `count` rows {id, score} after a score and up to `last`, in order, and true if
-- more may follow. The last row may have no id: it is not pending for the user.
local function pending_list(after, last, count)
    local shared_count = math.max(count, SHARED_MIN)
    local own = call('ZRANGEBYSCORE', prefix .. KEY_PENDING_LIST .. user, '(' .. after, last, 'WITHSCORES', 'LIMIT', 0, count)
    local shared = call('ZRANGEBYSCORE', prefix .. KEY_SHARED_PENDING_LIST, '(' .. after, last, 'WITHSCORES', 'LIMIT', 0, shared_count)
    local rows, more = {}, #own == 2 * count or #shared == 2 * shared_count
    for i = 1, #own, 2 do
        rows[#rows + 1] = {id = own[i], score = own[i + 1]}
    end
    if #shared == 0 then return rows, more end
    for i = 1, #shared, 2 do
        local is_pending = call('HGET', prefix .. KEY_ACK .. shared[i], user) == '0'
        if is_pending or i + 1 == #shared then
            rows[#rows + 1] = {id = is_pending and shared[i] or nil, score = shared[i + 1]}
        end
    end
    table.sort(rows, function(a, b) return tonumber(a.score) < tonumber(b.score) end)
    -- Beyond the last score of a full list, rows of that list are missing.
    local own_end = #own == 2 * count and tonumber(own[#own]) or math.huge
    local shared_end = #shared == 2 * shared_count and tonumber(shared[#shared]) or math.huge
    while #rows > 0 and tonumber(rows[#rows].score) > math.min(own_end, shared_end) do rows[#rows] = nil end
    local left, at = count, 0
    while left > 0 and at < #rows do
        at = at + 1
        if rows[at].id then left = left - 1 end
    end
    more = more or at < #rows
    while #rows > at do rows[#rows] = nil end
    return rows, more
end
