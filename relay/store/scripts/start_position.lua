-- start_position.lua: finds the newest stream entry that is not beyond a position.
-- KEYS: stream. ARGV: position, the stream entry from which to search backwards.
-- Returns that stream entry, or '' if it is not nearby. After many bytes it returns '(' and the
-- entry before which the search continues: the relay must read all shards in commit order from the
-- found entry, so there is no limit of bytes. The search ends at entries from before transactions were undone: these may have
-- any position, and must not be delivered again.
-- include: reverse_scan.lua
-- include: undone.lua

local precedes = precedes_undone(KEYS[1]:match('^(.*)' .. KEY_STREAM) .. KEY_META)
local function is_at_or_before(route, row) return position_text(route) <= ARGV[1] or precedes(row.entry) end
local PAGES = 64
local found, _, last = newest_notification(KEYS[1], ARGV[2], PAGES, is_at_or_before)
if found == false and #newest_rows < PAGES * PAGE then return '(' .. last end
return found or ''
