-- audit.lua: stores acts of operators, once each. In shard 0.
-- KEYS: stream (selects the slot). ARGV: prefix, 1 if an earlier call with the first acts had no reply, then for each act
-- its id, time in ms, actor, hash of the actor, act, object up to a user, user or '', hash of the user or '', rest of the
-- object.
-- Returns the number of acts that were trimmed before AUDIT_KEPT_MS.
-- include: audit_names.lua
local prefix, call = ARGV[1], redis.call
local key = prefix .. KEY_AUDIT

-- A call with acts that are stored already follows soon after it.
local RECENT, FIELDS = 1000, 9
local recent = {}
if ARGV[2] == '1' then
    for _, row in ipairs(call('XREVRANGE', key, '+', '-', 'COUNT', RECENT)) do recent[row[2][2]] = true end
end
for at = 3, #ARGV, FIELDS do
    if not recent[ARGV[at]] then
        keep_name(ARGV[at + 2], ARGV[at + 3])
        if ARGV[at + 6] ~= '' then keep_name(ARGV[at + 6], ARGV[at + 7]) end
        call('XADD', key, '*', 'id', ARGV[at], 'at', ARGV[at + 1], 'actor', ARGV[at + 3], 'act', ARGV[at + 4],
            'before', ARGV[at + 5], 'user', ARGV[at + 7], 'after', ARGV[at + 8])
    end
end
call('XTRIM', key, 'MINID', oldest_audit_entry())
return call('XTRIM', key, 'MAXLEN', STORE_AUDIT_MAX)
