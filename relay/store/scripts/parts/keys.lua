-- keys.lua: takes the prefix of a shard's keys apart.

local SHARD = KEY_SHARD_BEGIN .. '(%d+)' .. KEY_SHARD_END .. '$'

-- What the keys of all shards begin with.
local function prefix_of_all(prefix) return (prefix:gsub(SHARD, '')) end

-- The number of the shard as text; nil where there is only one.
local function shard_number(prefix) return prefix:match(SHARD) end
