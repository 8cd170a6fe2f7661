-- reverse_scan.lua: searches a stream backwards for a notification with a commit.
-- include: route.lua

-- Returns entry and route of the newest notification with a commit that `is_wanted` accepts by its
-- route and fields, within `pages` pages; otherwise nil. Skips retries and notifications published
-- over HTTP.
local function newest_notification(stream, last, pages, is_wanted)
    local PAGE = 16
    for _ = 1, pages do
        local page = redis.call('XREVRANGE', stream, last, '-', 'COUNT', PAGE)
        for _, entry in ipairs(page) do
            local field = {}
            for i = 1, #entry[2], 2 do field[entry[2][i]] = entry[2][i + 1] end
            local route = not field.retry_users and field.route or ''
            if #route >= FRAME_COMMON_SIZE and is_from_commit(route) and is_wanted(route, field) then
                return entry[1], route
            end
        end
        if #page < PAGE then return nil end
        last = page[#page][1]
    end
end
