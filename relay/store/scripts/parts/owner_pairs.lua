-- owner_pairs.lua: limits the pairs of users and notifications that the rules of one table owner add:
-- OWNER_PAIRS a minute, and a fifth of that in reserve. A group counts as a pair too, because its
-- members must be looked up. Requires `call`, `prefix`, `integer_text`
-- and OWNER_PAIRS. The accounts refill by the clock of the commits, so that catching up denies no more
-- than live decoding.

local charge_pairs, is_denied, write_accounts
do
    -- A row to a few users costs little more than one to a single user. An owner may have many rules, so
    -- all notifications of a change share its free pairs.
    local FREE_PAIRS, MINUTE_MS, RESERVE = 16, 60000, OWNER_PAIRS / 5
    local accounts = {}

    -- Returns the account of the owner in the header; nil for an owner without limits. The position has a
    -- number for the change, and ends with one for the notification.
    local function account_of(route, position)
        local owner = table_owner(route)
        if owner == 0 then return nil end
        local account, commit = accounts[owner], commit_ms(route)
        if not account then
            local stored = call('HGET', prefix .. KEY_OWNER_PAIRS, integer_text(owner))
            local left, filled = (stored or ''):match('^(%S+) (%S+)$')
            account = {left = tonumber(left or RESERVE), filled = tonumber(filled or commit)}
            accounts[owner] = account
        end
        local passed = commit - account.filled
        if passed > 0 then
            account.left = math.min(RESERVE, account.left + passed * OWNER_PAIRS / MINUTE_MS)
        end
        -- The clock of the commits may have been set back.
        if passed > 0 or passed < -MINUTE_MS then account.filled = commit end
        local change = position:sub(1, -5)
        if account.change ~= change then account.change, account.free = change, FREE_PAIRS end
        return account
    end

    -- Charges the pairs of a notification.
    function charge_pairs(route, position, count)
        local account = account_of(route, position)
        if not account then return end
        local free = math.min(account.free, count)
        account.free = account.free - free
        account.left = account.left - count + free
    end

    -- A live rule whose change was denied: the relays reload its lists (presence.lua).
    local function keep_reload(route, data)
        local rule_len = route_number(route, FRAME_NOTIFICATION_AT_RULE_LEN, FRAME_NOTIFICATION_AT_RECEIPTS)
        if rule_len == 0 or not route_flag(route, FRAME_LIVE) then return end
        local rule_at = FRAME_NOTIFICATION_HEAD_SIZE +
            route_number(route, FRAME_NOTIFICATION_AT_AUDIENCE_LEN, FRAME_NOTIFICATION_AT_TOPIC_LEN) +
            route_number(route, FRAME_NOTIFICATION_AT_TOPIC_LEN, FRAME_NOTIFICATION_AT_TARGETS_LEN)
        local rule = route_bytes(route, rule_at, rule_at + rule_len)
        local from = select(2, data:find(ENVELOPE_SOURCE_TEXT, 1, true)) + 1
        local source = cjson.decode('[' .. data:sub(from, data:find(ENVELOPE_TOPIC_TEXT, from, true) - 1) .. ']')[1]
        local xid = route_number(route, FRAME_NOTIFICATION_AT_XID, FRAME_NOTIFICATION_AT_OWNER)
        call('HSET', prefix .. KEY_RELOADS, cjson.encode({source, rule}), integer_text(xid))
    end

    -- Returns true, after counting the denial, if the owner has no pairs left for an audience of this size.
    function is_denied(route, position, data, count)
        local account = account_of(route, position)
        if not account or count <= account.free or account.left > 0 then return false end
        call('HINCRBY', prefix .. KEY_DENIED, 'p' .. integer_text(route_number(route,
            FRAME_NOTIFICATION_AT_OWNER, FRAME_NOTIFICATION_AT_RULE_LEN)), 1)
        keep_reload(route, data)
        return true
    end

    function write_accounts()
        for owner, account in pairs(accounts) do
            call('HSET', prefix .. KEY_OWNER_PAIRS, integer_text(owner),
                string.format('%.3f %.0f', account.left, account.filled))
        end
    end
end
