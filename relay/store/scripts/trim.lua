-- trim.lua: trims stream entries that are older than the retention and not pending.
-- KEYS: stream. ARGV: prefix, retention of entries in ms.
-- Older pending entries move to the end of the stream, as retries without users. Otherwise a
-- pending entry would retain all later entries, because XTRIM removes only the oldest entries.
-- Returns {trimmed entries, 1 if more entries must be moved}.
local stream, prefix = KEYS[1], ARGV[1]
local call = redis.call
-- include: delivery.lua
-- include: stream_entry.lua

local MOVES_MAX = 100
local keep_ms = now_ms() - tonumber(ARGV[2])

local function ms_of(entry) return tonumber(entry:match('^(%d+)-')) end

local pending = call('XPENDING', stream, 'clairon', '-', '+', MOVES_MAX)
local old = 0
for _, row in ipairs(pending) do
    if ms_of(row[1]) < keep_ms then old = old + 1 end
end
-- XTRIM runs first, because a full store accepts XADD only after XTRIM has freed memory.
local trimmed = old > 0 and call('XTRIM', stream, 'MINID', '~', pending[1][1]) or 0
for i = 1, old do
    local entry = pending[i][1]
    local row = call('XRANGE', stream, entry, entry)[1]
    local id
    for k = 1, row and #row[2] or 0, 2 do
        if row[2][k] == 'id' then id = row[2][k + 1] end
    end
    local found = id and read_entry(id)
    if found and found.entry == entry then
        replace_entry(found, attempts_of(found), {})
    else
        call('XACK', stream, 'clairon', entry) -- the notification is complete
    end
end
save_notifications()
if old == MOVES_MAX then return {trimmed, 1} end
return {trimmed + call('XTRIM', stream, 'MINID', '~', integer_text(keep_ms) .. '-0'), 0}
