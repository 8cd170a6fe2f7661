-- publish.lua: stores a notification published over HTTP, once per idempotency key.
-- KEYS: stream. ARGV: prefix, epoch, idempotency key ('': none), digest of the request, retention
-- of keys in ms, N, A (needs acks), S (needs acks, and its users are staged) or E (expired: only
-- looks up the key), id, route, data, audience, targets.
-- Returns {id, 'stored'}; or, with the id of the first request with that key, {id, 'repeated'} or
-- {id, 'different'}; or {id, 'expired'} if nothing was stored; or {id, 'large'} if nothing was
-- stored because the users must be staged first (stage.lua).
local stream, prefix = KEYS[1], ARGV[1]
local call = redis.call
-- include: delivery.lua
-- include: stream_entry.lua
-- include: group.lua
-- include: add_notification.lua

if call('HGET', prefix .. KEY_META, 'epoch') ~= ARGV[2] or not has_group() then
    return redis.error_reply('EPOCH the store was emptied, or its stream or group removed')
end
-- The users of a group audience are unknown while the memberships are being copied.
if ARGV[10] ~= 'USER' and ARGV[10] ~= 'ALL' and call('HEXISTS', prefix .. KEY_META, 'copying') == 1 then
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
for i = 11, #ARGV do targets[i - 10] = ARGV[i] end
if ARGV[6] == 'A' and audience_size(ARGV[10], targets) > STORE_PAIRS_MAX then return {id, 'large'} end
if ARGV[6] == 'S' and not add_staged(id, ARGV[8], ARGV[9]) then return {id, 'large'} end
if key ~= '' then
    call('SET', key, digest .. ' ' .. id, 'PX', ARGV[5])
end
if ARGV[6] == 'A' then
    add_ack_required(id, ARGV[8], ARGV[9], users_of(ARGV[10], targets))
elseif ARGV[6] == 'N' then
    add_notification(id, ARGV[8], ARGV[9])
end
write_pending()
return {id, 'stored'}
