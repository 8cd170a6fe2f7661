-- error_entry.lua: reads or drops an entry of the error log.
-- KEYS: stream. ARGV: prefix, entry of the error log, `read` or `drop`.
-- `read` returns the row {entry, fields}, with the data of the notification even if another entry
-- contains it, unless they are large: then the caller reads them from KEY_ERROR_PARTS. Returns an empty array if the
-- entry does not exist. `drop` returns the number of removed
-- entries.
local stream, prefix = KEYS[1], ARGV[1]
local call = redis.call
-- include: notifications.lua
-- include: error_log.lua

local row = call('XRANGE', errors, ARGV[2], ARGV[2])[1]
if not row then return ARGV[3] == 'drop' and 0 or {} end
local fields = fields_of(row)
if ARGV[3] == 'drop' then return (remove_error(fields.id, owner_of(fields), ARGV[2])) end
if fields.data ~= '' then return {row} end
local data, route = data_of_part(fields.id)
if data == '' then return {row} end
row[2] = {'id', fields.id, 'reason', fields.reason, 'attempts', fields.attempts, 'users', fields.users,
    'data', data, 'route', route}
return {row}
