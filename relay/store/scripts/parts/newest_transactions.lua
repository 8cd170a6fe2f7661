-- newest_transactions.lua: finds the transactions whose notifications clients may have received.
-- include: reverse_scan.lua

-- Returns commit time and id, 8 bytes each, of the newest transactions with a notification in the
-- stream. Retries and notifications published over HTTP may follow them.
local function newest_transactions(stream)
    local PAGES = 64
    local seen, found = {}, {}
    newest_notification(stream, '+', PAGES, function(route)
        local xid = route_number(route, FRAME_AT_VERSION, FRAME_AT_FLAGS) >= FRAME_VERSION and
            route_bytes(route, FRAME_NOTIFICATION_AT_XID, FRAME_NOTIFICATION_AT_RULE_LEN)
        if xid and not seen[xid] then
            seen[xid] = true
            found[#found + 1] = route_bytes(route, FRAME_NOTIFICATION_AT_COMMIT_US, FRAME_NOTIFICATION_AT_EXPIRES_US) .. xid
        end
        return #found == STORE_NEWEST_NOTIFIED
    end)
    return table.concat(found)
end
