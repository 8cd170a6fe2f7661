-- covered.lua: reports to readers that the shard has everything of the WAL before an LSN.

-- The last notification of a batch has this position in the field `covered`. Without one, it is in a stream of its own, whose
-- entry is added last: readers need only the newest one, and the stream entries before it.
-- `read`: the LSN; '': unchanged.
local function add_covered(prefix, read, timeline)
    if read == '' then return end
    redis.call('XADD', prefix .. KEY_COVERED, 'MAXLEN', 1, '*', 'read', read, 'timeline', timeline or '')
end
