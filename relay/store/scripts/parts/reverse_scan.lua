-- reverse_scan.lua: searches a stream backwards for a notification with a commit.
-- include: route.lua
-- include: large_backwards.lua

local PAGE, BYTES_MAX = 16, 4 * 1024 * 1024

-- The newest entries, without their data: two searches in a script read them once. The size of a
-- small entry is known only after it was copied, so one entry is read at a time.
local newest_rows, rows_bytes, is_whole, next_entry = {}, 0, false, nil
local function row_at(stream, last, at)
    if newest_rows[at] or is_whole then return newest_rows[at] end
    next_entry = next_entry or backwards(stream, last, '-')
    local entry, fields, large = next_entry()
    local row = large or entry and {entry = entry}
    for i = 1, fields and #fields[2] or 0, 2 do
        local name, value = fields[2][i], fields[2][i + 1]
        rows_bytes = rows_bytes + #value
        if name == 'retry_users' then row.is_retry = true end
        if name == 'route' or name == 'after' then row[name] = value end
    end
    newest_rows[at], is_whole = row, not row
    return row
end

-- Returns the position in a route as text.
local function position_text(route)
    return (route_bytes(route, FRAME_AT_COMMIT_LSN, FRAME_COMMON_SIZE):gsub('.', function(byte)
        return string.format('%02x', byte:byte())
    end))
end

-- Returns stream entry and route of the newest notification with a commit that `is_wanted` accepts
-- by its route and fields; of a large entry, the start of the route. Returns nil if the stream has no such
-- notification; false if it was not found in `pages` pages and BYTES_MAX bytes; the third result is then the last
-- entry that was read. Skips retries and notifications published over HTTP. A script searches from one `last` only.
local function newest_notification(stream, last, pages, is_wanted)
    local row
    for at = 1, pages * PAGE do
        if not newest_rows[at] and rows_bytes >= BYTES_MAX then break end
        local next_row = row_at(stream, last, at)
        if not next_row then return nil end
        row = next_row
        local route = not row.is_retry and row.route or ''
        if #route >= FRAME_COMMON_SIZE and is_from_commit(route) and is_wanted(route, row) then
            return row.entry, route
        end
    end
    return false, nil, row and row.entry
end
