-- check_endpoints.lua: returns two values for each endpoint: 1 if it is bound to the user, otherwise 0, and the last failure of its
-- push service, or ''.
-- KEYS: stream (selects the slot). ARGV: prefix, user, ids of endpoints.
local call, prefix, checked = redis.call, ARGV[1], {}
for at = 3, #ARGV do
    checked[#checked + 1] = call('GET', prefix .. KEY_ENDPOINT .. ARGV[at]) == ARGV[2] and 1 or 0
    checked[#checked + 1] = call('GET', prefix .. KEY_PUSH_FAILURE .. ARGV[at]) or ''
end
return checked
