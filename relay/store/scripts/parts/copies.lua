-- copies.lua: deletes stream entries of retries. Each retry is a copy of the notification, so that
-- many retries of few large notifications would fill the store. Requires `call`, `stream` and
-- `prefix`.
-- include: has_entry.lua

-- The list of a notification's copies begins with the entry that it had before its first retry. While
-- the stream has that entry, no copy is the oldest one of the stream: range.lua would take the
-- deletion of the oldest entry for trimming.
local function copies_of(id)
    local copies = call('LRANGE', prefix .. KEY_COPIES .. id, 0, -1)
    return copies[1] and has_entry(stream, copies[1]) and copies or {}
end

-- Adds a retry for users with this number of earlier retries, and deletes the copies that no user
-- waits for: each of their users has received them, has acknowledged, or has a newer retry.
local function add_copy(id, before, entry, retries, users)
    local key = prefix .. KEY_COPIES .. id
    if call('EXISTS', key) == 0 then call('RPUSH', key, before) end
    local copies = copies_of(id)
    for i = 2, #copies do
        local copy, is_awaited = cjson.decode(copies[i]), false
        for _, state in ipairs(call('HMGET', prefix .. KEY_RETRIES .. id, unpack(copy.users))) do
            if state == copy.retries .. '+' then is_awaited = true end
        end
        if not is_awaited then
            call('XDEL', stream, copy.entry)
            call('LREM', key, 1, copies[i])
        end
    end
    call('RPUSH', key, cjson.encode({entry = entry, retries = retries, users = users}))
end

-- Deletes all copies of a completed notification.
local function delete_copies(id)
    local copies = copies_of(id)
    for i = 2, #copies do call('XDEL', stream, cjson.decode(copies[i]).entry) end
    call('DEL', prefix .. KEY_COPIES .. id)
end
