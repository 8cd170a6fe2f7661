-- ticket.lua: redeems a ticket, once.
-- KEYS: stream (selects the slot). ARGV: prefix, ticket. Returns the ticket's claims, or nil.
local key = ARGV[1] .. KEY_TICKET .. ARGV[2]
local claims = redis.call('GET', key)
if claims then redis.call('DEL', key) end
return claims
