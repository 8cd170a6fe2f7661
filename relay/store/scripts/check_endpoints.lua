-- check_endpoints.lua: returns for each endpoint whether it is bound to the user: 1 or 0.
-- KEYS: stream (selects the slot). ARGV: prefix, user, ids of endpoints.
local bound = {}
for at = 3, #ARGV do
    bound[at - 2] = redis.call('GET', ARGV[1] .. KEY_ENDPOINT .. ARGV[at]) == ARGV[2] and 1 or 0
end
return bound
