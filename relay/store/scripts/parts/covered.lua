-- covered.lua: reports to readers that the shard has everything of the WAL before an LSN.

-- With one shard, the last notification of a batch has this position in the field `covered`. Otherwise it is in a stream of its own, whose
-- entry is added last: readers need only the newest one, and the stream entries before it.
-- `read`: the LSN; '': unchanged. `position`, `sent`: only in shard 0 of several, the position up to which `sent` has the
-- newest notification of each other shard.
local function add_covered(prefix, read, timeline, position, sent)
    if read == '' then return end
    local fields = {'read', read, 'timeline', timeline or ''}
    if (sent or '') ~= '' then fields = {'read', read, 'timeline', timeline or '', 'position', position, 'sent', sent} end
    redis.call('XADD', prefix .. KEY_COVERED, 'MAXLEN', 1, '*', unpack(fields))
end
