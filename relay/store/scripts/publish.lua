-- publish.lua: stores a notification published over HTTP, once per idempotency key.
-- KEYS: stream. ARGV: prefix, epoch, idempotency key ('': none), digest of the request, retention
-- of keys in ms, N, A (needs acks), S (needs acks, and its users are staged), P (the users of its Web
-- Push are staged) or E (expired: only looks up the key), id, route, data, text of a Web Push ('': none), its urgency, its delay in ms,
-- audience, targets.
-- Returns {id, 'stored'}; or, with the id of the first request with that key, {id, 'repeated'} or
-- {id, 'different'}; or {id, 'expired'} if nothing was stored; or {id, 'large'} if nothing was
-- stored because the users must be staged first (stage.lua).
local stream, prefix = KEYS[1], ARGV[1]
local call = redis.call
-- include: notifications.lua
-- include: stream_entry.lua
-- include: group.lua
-- include: add_notification.lua
-- include: web_push.lua

if call('HGET', prefix .. KEY_META, META_EPOCH) ~= ARGV[2] or not has_group() then
    return redis.error_reply('EPOCH the store was emptied, or its stream or group removed')
end
-- The users of a group audience are unknown while the memberships are being copied.
if ARGV[13] ~= 'USER' and ARGV[13] ~= 'ALL' and call('HEXISTS', prefix .. KEY_META, META_COPYING) == 1 then
    return redis.error_reply('COPYING memberships are being copied: group audiences are not available yet')
end
local key, digest, id = ARGV[3], ARGV[4], ARGV[7]
if key ~= '' then
    key = prefix .. KEY_IDEMPOTENCY .. key
    local first = call('GET', key)
    if first then
        local same = first:sub(1, #digest) == digest
        return {first:sub(#digest + 2), same and 'repeated' or 'different'}
    end
end
if ARGV[6] == 'E' then
    return {id, 'expired'}
end
local targets = {}
for i = 14, #ARGV do targets[i - 13] = ARGV[i] end
local mode, has_push = ARGV[6], ARGV[10] ~= ''
local is_staged = mode == 'S' or mode == 'P'
if not is_staged and (mode == 'A' or has_push) and audience_size(ARGV[13], targets) > STORE_PAIRS_MAX then
    return {id, 'large'}
end
if mode == 'P' and call('HDEL', prefix .. KEY_STAGED .. id, STAGED_ALL) == 0 then return {id, 'large'} end
if mode == 'S' and not add_staged(id, ARGV[8], ARGV[9]) then return {id, 'large'} end
if key ~= '' then
    call('SET', key, digest .. ' ' .. id, 'PX', ARGV[5])
end
if mode == 'A' then
    add_ack_required(id, ARGV[8], ARGV[9], users_of(ARGV[13], targets))
elseif mode ~= 'S' then
    add_notification(id, ARGV[8], ARGV[9])
end
if has_push then
    add_web_pushes(id, ARGV[10], ARGV[11], ARGV[8], not is_staged and users_of(ARGV[13], targets) or nil,
        now_ms() + tonumber(ARGV[12]), mode == 'A' or mode == 'S')
end
write_pending()
return {id, 'stored'}
