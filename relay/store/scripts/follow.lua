-- follow.lua: returns the start position for a relay that starts to read a shard's stream.
-- KEYS: stream. ARGV: prefix.
-- Returns {epoch, newest id ever, stored position of the slot or '', position of the newest
-- notification with a commit or '', newest field `after` or '', newest transactions}.
local stream, meta = KEYS[1], ARGV[1] .. KEY_META
-- include: last_id.lua
-- include: newest_transactions.lua
-- include: stored_position.lua

-- Only the first notification of a batch has the field `after`, so the search must cover the
-- largest batch and some retries.
local PAGES = 24
local newest_route, newest_after = nil, ''

local function has_after(route, field)
    newest_route = newest_route or route
    newest_after = field.after or ''
    return field.after
end
newest_notification(stream, '+', PAGES, has_after)
return {redis.call('HGET', meta, META_EPOCH) or '', last_generated_id(stream), stored_position(meta),
    newest_route and position_text(newest_route) or '', newest_after, newest_transactions(stream, meta)}
