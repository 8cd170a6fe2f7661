-- pending.lua: returns the number of pending notifications, and the oldest commit time.
-- KEYS: stream. ARGV: prefix, token of this process's feed.
-- Returns {number, commit time in ms or 0, owners and the numbers of their entries that were trimmed
-- from the error log}. The latter are returned once, to the feed that owns the progress.
local stream, prefix = KEYS[1], ARGV[1]
local call = redis.call
-- include: delivery.lua
-- include: stream_entry.lua

local function dequeue_trimmed()
    local progress = call('HGET', prefix .. KEY_META, 'progress')
    if not progress or call('HGET', progress, 'owner') ~= ARGV[2] then return '' end
    local trimmed = call('HGETALL', prefix .. KEY_ERRORS_TRIMMED)
    if #trimmed > 0 then call('DEL', prefix .. KEY_ERRORS_TRIMMED) end
    return table.concat(trimmed, ' ')
end

local count = call('XPENDING', stream, 'clairon')[1]
-- The delivery time of a pending entry is its commit time (claim), so the entry is not read.
local row = call('XPENDING', stream, 'clairon', '-', '+', 1)[1]
local oldest = row and now_ms() - row[3]
local retried = oldest and oldest_retried(1)[1]
if retried and retried.commit < oldest then oldest = retried.commit end
return {count, integer_text(oldest or 0), dequeue_trimmed()}
