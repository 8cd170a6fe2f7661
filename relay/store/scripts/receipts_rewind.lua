-- receipts_rewind.lua: sends the newest receipts to a sink again if its database went back.
-- KEYS: stream of notifications. ARGV: prefix, group, position of the sink's database: system identifier,
-- timeline and LSN with blanks between them, of constant length; how far to go back, in ms: receipts
-- that were added or taken since then are read again.
-- A restored or promoted server has another timeline, or a lower LSN. It may lack receipts that were
-- acknowledged. Those that it has are not stored twice.
-- Returns 1 if the group was moved back, otherwise 0.
local prefix, group, position = ARGV[1], ARGV[2], ARGV[3]
-- include: sinks.lua
local known = redis.call('HGET', sinks, 'position:' .. group)
local failed = ensure_group()
if failed then return failed end
local function server_of(text) return text:match('^%S+ %S+') end
local function lsn_of(text) return text:match('%S+$') end

local went_back = known and (server_of(known) ~= server_of(position) or lsn_of(position) < lsn_of(known))
if went_back then
    local since = now_ms() - tonumber(ARGV[4])
    local start = math.min(since, tonumber(group_fields()['last-delivered-id']:match('^%d+')))
    -- A backlog was taken later than it was added.
    local marked
    for ms, entry_ms in (redis.call('HGET', sinks, 'marks:' .. group) or ''):gmatch('(%d+) (%d+)%-%d+') do
        if not marked or tonumber(ms) <= since then marked = tonumber(entry_ms) end
    end
    start = math.min(start, marked or start)
    redis.call('XGROUP', 'SETID', receipts, group, string.format('%.0f-0', start))
end
redis.call('HSET', sinks, 'position:' .. group, position)
return went_back and 1 or 0
