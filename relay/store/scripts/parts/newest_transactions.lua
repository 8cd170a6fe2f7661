-- newest_transactions.lua: finds the transactions whose notifications clients may have received.
-- include: reverse_scan.lua
-- include: undone.lua

-- Returns commit time and id, 8 bytes each, of the newest transactions with a notification in the
-- stream. Retries and notifications published over HTTP may follow them. Omits undone transactions.
local function newest_transactions(stream, meta)
    local PAGES = 64
    local seen, found = {}, {}
    local is_undone = undone_filter(meta)
    newest_notification(stream, '+', PAGES, function(route, row)
        local xid = not is_undone(route, row.entry) and
            route_bytes(route, FRAME_NOTIFICATION_AT_XID, FRAME_NOTIFICATION_AT_OWNER)
        if xid and not seen[xid] then
            seen[xid] = true
            found[#found + 1] = route_bytes(route, FRAME_NOTIFICATION_AT_COMMIT_US, FRAME_NOTIFICATION_AT_EXPIRES_US) .. xid
        end
        return #found == STORE_NEWEST_NOTIFIED
    end)
    return table.concat(found)
end
