-- read_entry.lua: stream entries of pending notifications. A script would take too long to copy an entry beyond
-- STORE_COPIED_BYTES_MAX, or to write it again, so it returns what it needs. The caller reads the entry, and calls the
-- script again with further arguments: the entry; unless it was deleted, the kind below, number of bytes, number of
-- attempts and users as in the reply; then the fields of the entry, without the data. Unless the kind is `route`, the same
-- transaction has written the data before. A full store rejects that: then trim.lua is called with the kind `copy`, and the
-- fields have the data. Requires notifications.lua and large_entries.lua.
--
-- What a script needs is returned as {entry, kind, attempts, users}, or {}. The kinds are:
--   route  only the other fields
--   parts  data and route must be in KEY_ERROR_PARTS, for the end of all pairs, or those of `users`
--   entry  a retry with this number of attempts, unless that is above the retry limit: then as `parts`. '': with the
--          same number. `users` is its field `retry_users`
-- include: prepared.lua
--
-- `reading` has these fields:
--   wanted    what the caller must read
--   given     the entry that the caller has read, or nil
--   kind, attempts  as in the arguments
--   users     set of the users in the arguments
local reading = {wanted = {}, users = {}}
do
    local found_by_caller

    -- Reads the entry in the arguments from `first`.
    function reading.begin(first)
        reading.given, reading.kind = ARGV[first], ARGV[first + 1]
        if not reading.kind then return end
        found_by_caller = {entry = ARGV[first], bytes = tonumber(ARGV[first + 2])}
        reading.attempts = tonumber(ARGV[first + 3])
        for _, user in ipairs(prepared.unpack_users(ARGV[first + 4])) do reading.users[user] = true end
        for at = first + 5, #ARGV, 2 do found_by_caller[ARGV[at]] = ARGV[at + 1] end
        if reading.kind == 'route' or reading.kind == 'copy' then return end
        prepared.begin(ARGV[first + 2], found_by_caller.id, reading.kind == 'entry', reading.kind == 'parts')
    end

    -- Asks the caller for an entry, the first one of a call. `users` is packed.
    function reading.want(entry, kind, attempts, users)
        if not reading.wanted[1] then reading.wanted = {entry, kind, attempts and integer_text(attempts) or '', users or ''} end
    end

    function reading.is_missing(entry, bytes) return bytes > STORE_COPIED_BYTES_MAX and entry ~= reading.given end

    -- True if the data of an entry can be written: they were read here, or prepared.
    function reading.has_data(found, kind)
        if found.data or prepared.id ~= found.id then return found.data end
        return kind == 'entry' and prepared.entry or kind == 'parts' and prepared.parts
    end

    -- Returns a stream entry as {entry =, id =, data =, bytes =, route =, open_ended =}, or nil: then the second result is
    -- true if the caller must read it first; otherwise it was deleted. An entry in the arguments has no data, unless its kind is `copy`.
    function reading.entry_at(entry)
        if entry == reading.given then return found_by_caller end
        if reading.is_missing(entry, large_bytes(stream, entry)) then return nil, true end
        local row = call('XRANGE', stream, entry, entry)[1]
        if not row then return nil end
        local found = {entry = entry}
        for i = 1, #row[2], 2 do found[row[2][i]] = row[2][i + 1] end
        found.bytes = #found.data
        return found
    end

    -- Reads a notification's pending stream entry. One of another notification is as if it was deleted.
    function reading.entry_of(id)
        local notification = notification_of(id)
        if not notification then return nil end
        local found, must_wait = reading.entry_at(notification.entry)
        if found and found.id ~= id then return nil end
        return found, must_wait
    end
end
