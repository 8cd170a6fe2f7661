-- covered.lua: reports to readers that the shard has everything of the WAL before an LSN.

-- `read`: the LSN; '': unchanged. Readers need only the newest entry, and the stream entries before
-- it: this entry is added last.
local function add_covered(prefix, read, timeline)
    if read == '' then return end
    redis.call('XADD', prefix .. KEY_COVERED, 'MAXLEN', 1, '*', 'read', read, 'timeline', timeline or '')
end
