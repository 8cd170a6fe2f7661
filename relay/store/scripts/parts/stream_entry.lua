-- stream_entry.lua: entries of messages that are waited for, and their copies. Needs delivery.lua.
-- include: route.lua

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

-- Of what is pending by a copy, the first of its commits: as {id =, commit =}.
local function oldest_retried(most)
    local found = {}
    local rows = call('ZRANGEBYSCORE', prefix .. KEY_RETRIED, '-inf', '+inf', 'WITHSCORES', 'LIMIT', 0, 4 * most)
    for i = 1, #rows, 2 do
        if call('HEXISTS', prefix .. KEY_PENDING, rows[i]) == 0 then
            call('ZREM', prefix .. KEY_RETRIED, rows[i]) -- a store that went back may have kept it
        elseif #found < most then
            found[#found + 1] = {id = rows[i], commit = tonumber(rows[i + 1])}
        end
    end
    return found
end

local function attempts_of(found)
    return route_number(found.route, FRAME_NOTIFICATION_AT_ATTEMPTS, FRAME_NOTIFICATION_AT_AUDIENCE_LEN)
end
local function limit_of(found) return route_number(found.route, FRAME_NOTIFICATION_AT_RETRY_LIMIT, FRAME_NOTIFICATION_AT_ATTEMPTS) end

-- The time of its own for an acknowledgement, or the one that is set.
local function ack_timeout_of(found, set)
    if not route_flag(found.route, FRAME_ACK_TIMED) then return set end
    return route_number(found.route, FRAME_NOTIFICATION_AT_ACK_TIMEOUT,
        FRAME_NOTIFICATION_AT_ACK_TIMEOUT + FRAME_NOTIFICATION_ACK_TIMEOUT_SIZE)
end
local LETTERS = STORE_BACKOFF_LETTERS
local function backoff_of(found)
    local kind = route_number(found.route, FRAME_NOTIFICATION_AT_BACKOFF, FRAME_NOTIFICATION_AT_RETRY_LIMIT)
    if kind >= #LETTERS then kind = 0 end
    return LETTERS:sub(kind + 1, kind + 1)
end

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
    call('HSETNX', prefix .. KEY_RETRIES .. id, '', entry)
    messages[id].tried = true
end

local function first_entry(id, message)
    return message.tried and call('HGET', prefix .. KEY_RETRIES .. id, '') or message.entry
end

-- Puts a copy at the stream's end in the place of the pending entry, for these users alone.
local function replace_entry(found, attempts, users)
    local id = found.id
    local route = route_bytes(found.route, 0, FRAME_NOTIFICATION_AT_ATTEMPTS) ..
        string.char(math.floor(attempts / 256), attempts % 256) ..
        route_bytes(found.route, FRAME_NOTIFICATION_AT_AUDIENCE_LEN, #found.route)
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
    call('ZADD', prefix .. KEY_RETRIED, whole(commit_ms(route)), id)
    messages[id].entry = entry
    message_changed(id)
    found.entry, found.route, found.data = entry, route, data
    return entry
end
