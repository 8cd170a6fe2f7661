-- prepared.lua: large data that the transaction of this script has written before the script, which would copy them
-- several times: a stream entry, or data and route in KEY_ERROR_PARTS. What the script does not use is removed in the
-- same step, before any relay reads it. Requires stream_entry.lua.
--
-- `prepared` has these fields:
--   id     of the notification: nothing is used for another one
--   entry  the stream entry, until it is used
--   parts  the notification whose data and route are in KEY_ERROR_PARTS, until they are used
--   bytes  of data and route
do
-- include: last_id.lua
    -- A command of a transaction may fail while the others run. Therefore the transaction moves the group to the end
    -- of the stream before XADD, and its position shows which entry was added, if any. Without the group, XADD adds an
    -- entry too. It is found by its notification, and no script can use it.
    local function begin_entry()
        local before = group_position(stream)
        if not before then
            local newest = redis.pcall('XREVRANGE', stream, '+', '-', 'COUNT', 1)[1]
            if newest and newest[2][2] == prepared.id then call('XDEL', stream, newest[1]) end
            return
        end
        local last = last_generated_id(stream)
        if last ~= before and has_unique_score(last) then prepared.entry = last end
    end

    -- Finds what was prepared for notification `id`, with this number of bytes: a stream entry, data and route in
    -- KEY_ERROR_PARTS, or both.
    function prepared.begin(bytes, id, adds_entry, adds_parts)
        prepared.bytes, prepared.id = tonumber(bytes), id
        -- A store that is full may reject a first write that allocates, and the entry would remain. It accepts the
        -- writes after this one.
        call('HDEL', prefix .. KEY_META, '')
        if adds_entry then begin_entry() end
        if adds_parts and call('HEXISTS', prefix .. KEY_ERROR_PARTS .. id, 'data') == 1 then prepared.parts = id end
    end

    function prepared.unpack_users(packed)
        local users, at = {}, 1
        while at < #packed do
            local len = packed:byte(at) * 256 + packed:byte(at + 1)
            users[#users + 1], at = packed:sub(at + 2, at + 1 + len), at + 2 + len
        end
        return users
    end

    -- The transaction sets an expiration, since an append-only file may end before the script.
    function prepared.keep_parts()
        call('PERSIST', prefix .. KEY_ERROR_PARTS .. prepared.parts)
        prepared.parts = nil
    end

    -- Removes what was not used. If the error log has the notification, it needs its data.
    function prepared.discard()
        if prepared.entry then call('XDEL', stream, prepared.entry) end
        local key = prepared.parts and prefix .. KEY_ERROR_PARTS .. prepared.parts
        if key and call('HEXISTS', key, 'bytes') == 0 then call('HDEL', key, 'data', 'route') end
        if key then prepared.keep_parts() end
        prepared.entry = nil
    end

    -- Returns the reply of a script that uses nothing.
    function prepared.reject(reply)
        prepared.discard()
        return reply
    end
end
