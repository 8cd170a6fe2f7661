-- trim.lua: trims stream entries that are older than the retention and not pending.
-- KEYS: stream. ARGV: prefix, retention of entries in ms.
-- Older pending entries move to the end of the stream, as retries without users. Otherwise a
-- pending entry would retain all later entries, because XTRIM removes only the oldest entries.
-- Also forgets the ended pairs of users (ended.lua).
-- Also removes trimmed entries from the index of large entries.
-- Returns {trimmed entries, 1 if more entries must be moved}.
local stream, prefix = KEYS[1], ARGV[1]
local call = redis.call
-- include: delivery.lua
-- include: stream_entry.lua
-- include: large_entries.lua

local MOVES_MAX, MOVED_BYTES, LARGE_MAX = 100, 1024 * 1024, 1000
local keep_ms = now_ms() - tonumber(ARGV[2])

-- Visits some users in each call, and removes those whose last pair was stored long before.
local ENDED_KEEP_MS, ENDED_VISITS = 3600000, 1000
local function forget_ended()
    local page = call('HSCAN', prefix .. KEY_ENDED, call('HGET', prefix .. KEY_META, 'ended_cursor') or '0', 'COUNT', ENDED_VISITS)
    local users = {}
    for i = 1, #page[2], 2 do
        if tonumber(page[2][i + 1]:match('(%d+)%-%d+!?$')) < now_ms() - ENDED_KEEP_MS then users[#users + 1] = page[2][i] end
    end
    call_chunked(users, 'HDEL', prefix .. KEY_ENDED)
    redis.pcall('HSET', prefix .. KEY_META, 'ended_cursor', page[1])
end

local function ms_of(entry) return tonumber(entry:match('^(%d+)-')) end

local pending = call('XPENDING', stream, 'clairon', '-', '+', MOVES_MAX)
local old = 0
for _, row in ipairs(pending) do
    if ms_of(row[1]) < keep_ms then old = old + 1 end
end
-- XTRIM runs first, because a full store accepts XADD only after XTRIM has freed memory.
local trimmed = old > 0 and call('XTRIM', stream, 'MINID', '~', pending[1][1]) or 0
local moved, bytes = 0, 0
while moved < old and bytes < MOVED_BYTES do
    moved = moved + 1
    local entry = pending[moved][1]
    local found = read_entry_at(entry)
    local notification = found and notification_of(found.id)
    if notification and notification.entry == entry then
        bytes = bytes + #found.data
        replace_entry(found, attempts_of(found), {})
    else
        call('XACK', stream, 'clairon', entry) -- the notification is complete
    end
end
save_notifications()
forget_ended()
if moved < old or old == MOVES_MAX then return {trimmed, 1} end
trimmed = trimmed + call('XTRIM', stream, 'MINID', '~', integer_text(keep_ms) .. '-0')
local large = next_large(stream, '0-0')
for _ = 1, LARGE_MAX do
    if not large or has_large(stream, large) then break end
    large = next_large(stream, large.entry)
end
return {trimmed, 0}
