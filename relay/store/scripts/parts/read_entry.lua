-- read_entry.lua: reads stream entries of pending notifications. A script would take too long to copy an entry
-- beyond STORE_COPIED_BYTES_MAX, so it returns the id. The caller reads the entry, and calls the script again with further
-- arguments: this id and the fields of the entry, or no fields if it was deleted. Requires notifications.lua and
-- large_entries.lua.
--
-- `reading` has these fields:
--   wanted    the first entry that the caller must read, or ''
--   attempts  the number of attempts that the data of this entry must have, unless it is above the retry limit
--   given     the entry that the caller has read, or nil
local reading = {wanted = '', attempts = 0}
do
    local found_by_caller

    -- Reads the entry in the arguments from `first`.
    function reading.begin(first)
        reading.given = ARGV[first]
        if not ARGV[first + 1] then return end
        found_by_caller = {entry = ARGV[first]}
        for at = first + 1, #ARGV, 2 do found_by_caller[ARGV[at]] = ARGV[at + 1] end
    end

    function reading.is_missing(entry, bytes) return bytes > STORE_COPIED_BYTES_MAX and entry ~= reading.given end

    -- Returns a stream entry as {entry =, id =, data =, route =, open_ended =}, or nil: then the second result is
    -- true if the caller must read it first; otherwise it was deleted.
    function reading.entry_at(entry)
        if entry == reading.given then return found_by_caller end
        if reading.is_missing(entry, large_bytes(stream, entry)) then
            if reading.wanted == '' then reading.wanted = entry end
            return nil, true
        end
        local row = call('XRANGE', stream, entry, entry)[1]
        if not row then return nil end
        local found = {entry = entry}
        for i = 1, #row[2], 2 do found[row[2][i]] = row[2][i + 1] end
        return found
    end

    -- Reads a notification's pending stream entry.
    function reading.entry_of(id)
        local notification = notification_of(id)
        if not notification then return nil end
        return reading.entry_at(notification.entry)
    end
end
