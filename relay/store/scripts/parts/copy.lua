-- copy.lua: entries of messages that are waited for, and their copies. Needs delivery.lua.

local function byte_at(text, offset, count)
    local number = 0
    for i = offset + 1, offset + count do number = number * 256 + text:byte(i) end
    return number
end

-- Scores in inboxes tell 1024 entries of a millisecond apart. Where the store's clock was set back, or a
-- replica's is behind, all would be of one: then this one is of the next, so that no two have one score.
local MOST_OF_A_MS = 1000
local function add_entry(...)
    local entry = call('XADD', stream, '*', ...)
    if #entry <= 16 then return entry end -- one of the first hundred
    local ms, seq = entry:match('^(%d+)-(%d+)$')
    if tonumber(seq) < MOST_OF_A_MS then return entry end
    call('XDEL', stream, entry)
    call('XSETID', stream, whole(tonumber(ms) + 1) .. '-0')
    return call('XADD', stream, '*', ...)
end

-- The pending entry of a message as {entry, id =, data =, route =, open =}; nil when it is gone.
local function read_entry(id)
    local message = message_of(id)
    local row = message and call('XRANGE', stream, message.entry, message.entry)[1]
    if not row then return nil end
    local found = {entry = message.entry}
    for i = 1, #row[2], 2 do found[row[2][i]] = row[2][i + 1] end
    return found
end

local function commit_ms(route) return math.floor(byte_at(route, 40, 8) / 1000) end

-- Of what is pending by a copy, the first of its commits: as {id =, commit =}.
local function oldest_retried(most)
    local found = {}
    local rows = call('ZRANGEBYSCORE', prefix .. ':retried', '-inf', '+inf', 'WITHSCORES', 'LIMIT', 0, 4 * most)
    for i = 1, #rows, 2 do
        if call('HEXISTS', prefix .. ':pending', rows[i]) == 0 then
            call('ZREM', prefix .. ':retried', rows[i]) -- a store that went back may have kept it
        elseif #found < most then
            found[#found + 1] = {id = rows[i], commit = tonumber(rows[i + 1])}
        end
    end
    return found
end

local function attempts_of(found) return byte_at(found.route, 62, 2) end
local function limit_of(found) return byte_at(found.route, 60, 2) end

-- FRAME_ACK_TIMED: a time of its own; else as set.
local function ack_timeout_of(found, set)
    if math.floor(byte_at(found.route, 7, 1) / 16) % 2 == 0 then return set end
    return byte_at(found.route, 76, 4)
end
local KINDS = {[0] = 'E', [1] = 'L', [2] = 'F'}
local function backoff_of(found) return KINDS[byte_at(found.route, 59, 1)] or 'E' end

local function pack_text(text)
    return string.char(math.floor(#text / 256), #text % 256) .. text
end

local function pack_users(users)
    local packed = {}
    for i, user in ipairs(users) do packed[i] = pack_text(user) end
    return table.concat(packed)
end

-- Who joins an open audience later has it in his inbox where it was first: kept beside its retries,
-- as no user has an empty name.
local function keep_first(id, entry)
    call('HSETNX', prefix .. ':tries:' .. id, '', entry)
    messages[id].tried = true
end

local function first_entry(id, message)
    return message.tried and call('HGET', prefix .. ':tries:' .. id, '') or message.entry
end

-- Puts a copy at the stream's end in the place of the pending entry, for these users alone.
local function replace_entry(found, attempts, users)
    local id = found.id
    local route = found.route:sub(1, 62) ..
        string.char(math.floor(attempts / 256), attempts % 256) .. found.route:sub(65)
    -- The tail is the decoder's own: no payload can look like it at the line's end.
    local head, tail = found.data:match('^(.*"attempts":)%d+(,"limit":%d+,"backoff":"%u+"}}})$')
    local data = head and head .. attempts .. tail or found.data
    local fields = {'id', id, 'route', route, 'data', data, 'only', pack_users(users)}
    if found.open then
        fields[#fields + 1] = 'open'
        fields[#fields + 1] = found.open
    end
    local entry = add_entry(unpack(fields))
    if found.entry then call('XACK', stream, 'clairon', found.entry) end
    call('XCLAIM', stream, 'clairon', 'relay', 0, entry, 'FORCE', 'JUSTID')
    messages[id] = message_of(id) or {left = 0, ends = false, tried = false}
    if found.open then keep_first(id, found.entry) end
    messages[id].tried = true
    call('ZADD', prefix .. ':retried', whole(commit_ms(route)), id)
    messages[id].entry = entry
    message_changed(id)
    found.entry, found.route, found.data = entry, route, data
    return entry
end
