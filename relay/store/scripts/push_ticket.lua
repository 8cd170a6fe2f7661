-- push_ticket.lua: reads the ticket of a Web Push.
-- KEYS: stream (selects the slot). ARGV: prefix, ticket, 1 if it is used: removes it. Returns notification and user, or nil.
local key = ARGV[1] .. KEY_PUSH_TICKET .. ARGV[2]
local value = redis.call('GET', key)
if not value then return nil end
if ARGV[3] == '1' then redis.call('DEL', key) end
local id, user = value:match('^([^ ]+) (.*)$')
return {id, user}
