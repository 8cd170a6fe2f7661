-- trim.lua: trims entries that are older than the retention and have no pending acknowledgements.
-- KEYS: stream. ARGV: prefix, how long entries are kept in ms.
-- Older pending entries are moved to the stream's end, as retries for no user: XTRIM removes only the
-- oldest entries, and a pending one would keep all that follow.
-- Returns {entries trimmed, 1: more entries have to be moved}.
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
-- Trim first: a full store accepts XADD only after memory was freed.
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
        call('XACK', stream, 'clairon', entry) -- it is complete
    end
end
save_notifications()
if old == MOVES_MAX then return {trimmed, 1} end
return {trimmed + call('XTRIM', stream, 'MINID', '~', integer_text(keep_ms) .. '-0'), 0}
