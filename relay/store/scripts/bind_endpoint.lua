-- bind_endpoint.lua: binds the endpoint of a Web Push subscription to a user, or removes the binding.
-- KEYS: stream (selects the slot). ARGV: prefix, id of the endpoint, user, lifetime in ms (empty:
-- remove the binding, if it is the user's).
-- Returns 1 if the endpoint was not bound to the user before, or was removed, otherwise 0.
local key, user, lifetime = ARGV[1] .. KEY_ENDPOINT .. ARGV[2], ARGV[3], ARGV[4]
local is_bound = redis.call('GET', key) == user

if lifetime ~= '' then
    redis.call('SET', key, user, 'PX', lifetime)
    return is_bound and 0 or 1
end
if is_bound then redis.call('DEL', key) end
return is_bound and 1 or 0
