-- fence.lua: removes added stream entries again if ingest.lua would have rejected their batch. It
-- runs in a transaction, after the entries are added and before the progress advances. No entry of
-- the batch is large: each transaction contains the text of this script, so it has no function for them.
-- KEYS: stream, progress, a key that never exists (keys.h). ARGV: prefix, epoch, owner token,
-- number of added entries, the position that the batch follows.
local last_generated_id, record_large
-- include: fence_batch.lua
