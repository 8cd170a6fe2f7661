-- delete_members.lua: deletes a part of the memberships. The caller repeats it until all are deleted.
-- KEYS: stream. ARGV: prefix, the cursor of SCAN that the last call returned, '0' at the start.
-- Returns the next cursor, or '0': all memberships are deleted.
-- SCAN, because stores often reject KEYS. It reads all keys of the server, so a call reads a part.
local prefix, call = ARGV[1], redis.call
local meta = prefix .. KEY_META
-- Another relay has deleted the rest. New memberships may follow from then on.
if call('HGET', meta, META_COPYING) ~= 'delete' then return '0' end
local page = call('SCAN', ARGV[2], 'MATCH', prefix .. ':*', 'COUNT', 2000)
for _, key in ipairs(page[2]) do
    local kind = key:sub(#prefix + 1)
    if kind:find(KEY_MEMBERS, 1, true) == 1 or kind:find(KEY_GROUPS, 1, true) == 1 then call('UNLINK', key) end
end
if page[1] == '0' then
    call('HSET', meta, META_COPYING, 1)
    call('XADD', prefix .. KEY_CONTROL, 'MAXLEN', '~', STORE_CONTROL_MAX, '*', 'change', '=')
end
return page[1]
