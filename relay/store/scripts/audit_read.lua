-- audit_read.lua: reads acts of operators, oldest first.
-- KEYS: stream (selects the slot). ARGV: prefix, stream entry after which to read, '' for the oldest, maximum number.
-- Returns the last entry that was read, then for each act: entry, time in ms, actor, its hash, act, object up to a user,
-- user, its hash, rest of the object. A name is '' after `clairon forget`.
-- include: audit_names.lua
local prefix, after, call = ARGV[1], ARGV[2], redis.call

local names = {}
local function name_of(hash)
    if hash == '' then return '' end
    if not names[hash] then names[hash] = call('GET', prefix .. KEY_AUDIT_NAME .. hash) or '' end
    return names[hash]
end

local function is_after(a, b)
    local a_ms, a_seq = a:match('^(%d+)-(%d+)$')
    local b_ms, b_seq = b:match('^(%d+)-(%d+)$')
    a_ms, b_ms = tonumber(a_ms), tonumber(b_ms)
    return a_ms > b_ms or a_ms == b_ms and tonumber(a_seq) > tonumber(b_seq)
end

local oldest = oldest_audit_entry()
local reply = {after ~= '' and after or '0-0'}
local from = is_after(reply[1], oldest) and '(' .. reply[1] or oldest
for _, row in ipairs(call('XRANGE', prefix .. KEY_AUDIT, from, '+', 'COUNT', ARGV[3])) do
    local field = {}
    for i = 1, #row[2], 2 do field[row[2][i]] = row[2][i + 1] end
    for _, text in ipairs({row[1], field.at, name_of(field.actor), field.actor, field.act, field.before,
        name_of(field.user), field.user, field.after}) do reply[#reply + 1] = text end
    reply[1] = row[1]
end
return reply
