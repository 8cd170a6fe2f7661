-- ticket.lua: takes a ticket, which opens one door once.
-- KEYS: stream (for the slot). ARGV: prefix, ticket. Returns what it stands for, or nil.
local key = ARGV[1] .. KEY_TICKET .. ARGV[2]
local claims = redis.call('GET', key)
if claims then redis.call('DEL', key) end
return claims
