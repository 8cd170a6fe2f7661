-- reverse_scan.lua: searches a stream backwards for a notification with a commit.
-- include: route.lua
-- include: large_entries.lua

local PAGE, BYTES_MAX = 16, 4 * 1024 * 1024

-- The newest entries, without their data: two searches in a script read them once. The size of a
-- small entry is known only after it was copied, so one entry is read at a time.
local newest_rows, rows_bytes, is_whole = {}, 0, false
local large, is_looked_up
-- Returns the entry before `last`; nil if there is none; false if it would exceed BYTES_MAX.
local function read_row(stream, last)
    if not is_looked_up then large, is_looked_up = previous_large(stream, last:match('[^(]+')), true end
    local entry = redis.call('XREVRANGE', stream, last, large and '(' .. large.entry or '-', 'COUNT', 1)[1]
    if not entry and large then
        if rows_bytes > 0 and rows_bytes + large.bytes > BYTES_MAX then return false end
        entry, is_looked_up = redis.call('XREVRANGE', stream, last, '-', 'COUNT', 1)[1], false
    end
    if not entry then return nil end
    local row = {entry = entry[1]}
    for i = 1, #entry[2], 2 do
        local name, value = entry[2][i], entry[2][i + 1]
        rows_bytes = rows_bytes + #value
        if name == 'retry_users' then row.is_retry = true end
        if name == 'route' or name == 'after' then row[name] = value end
    end
    return row
end

local function row_at(stream, last, at)
    if not newest_rows[at] and not is_whole then
        local row = read_row(stream, at == 1 and last or '(' .. newest_rows[at - 1].entry)
        if row == false then return false end
        newest_rows[at] = row
        is_whole = not row
    end
    return newest_rows[at]
end

-- Returns stream entry and route of the newest notification with a commit that `is_wanted` accepts
-- by its route and fields. Returns nil if the stream has no such notification; false if it was not
-- found in `pages` pages and BYTES_MAX bytes; the third result is then the last entry that was read.
-- Skips retries and notifications published over HTTP. A script searches from one `last` only.
local function newest_notification(stream, last, pages, is_wanted)
    local row
    for at = 1, pages * PAGE do
        if not newest_rows[at] and rows_bytes >= BYTES_MAX then break end
        local next_row = row_at(stream, last, at)
        if next_row == false then break end
        if not next_row then return nil end
        row = next_row
        local route = not row.is_retry and row.route or ''
        if #route >= FRAME_COMMON_SIZE and is_from_commit(route) and is_wanted(route, row) then
            return row.entry, route
        end
    end
    return false, nil, row and row.entry
end
