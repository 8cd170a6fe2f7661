-- reverse_scan.lua: searches a stream backwards for a notification with a commit.
-- include: route.lua

local PAGE, PAGE_BYTES, FIRST_PAGE = 16, 256 * 1024, 4

-- Returns stream entry and route of the newest notification with a commit that `is_wanted` accepts
-- by its route, fields and id. Returns nil if the stream has no such notification, and false if it was
-- not found in `pages` pages and `max_bytes` (default: PAGE_BYTES for each page). Skips retries and
-- notifications published over HTTP. Pages of large stream entries are shorter, because the server
-- builds each page in memory.
local function newest_notification(stream, last, pages, is_wanted, max_bytes)
    local left, count, read, bytes = pages * PAGE, FIRST_PAGE, 0, 0
    max_bytes = max_bytes or pages * PAGE_BYTES
    while left > 0 and bytes < max_bytes do
        count = math.min(count, left)
        local page = redis.call('XREVRANGE', stream, last, '-', 'COUNT', count)
        for _, entry in ipairs(page) do
            local field = {}
            for i = 1, #entry[2], 2 do
                field[entry[2][i]] = entry[2][i + 1]
                bytes = bytes + #entry[2][i + 1]
            end
            local route = not field.retry_users and field.route or ''
            if #route >= FRAME_COMMON_SIZE and is_from_commit(route) and is_wanted(route, field, entry[1]) then
                return entry[1], route
            end
        end
        if #page < count then return nil end
        last, left, read = '(' .. page[#page][1], left - count, read + count
        count = math.max(1, math.min(PAGE, math.floor(PAGE_BYTES * read / math.max(1, bytes))))
    end
    return false
end
