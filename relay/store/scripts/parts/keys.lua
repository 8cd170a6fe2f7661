-- keys.lua: parses the prefix of a shard's keys.

local SHARD = KEY_SHARD_BEGIN .. '(%d+)' .. KEY_SHARD_END .. '$'

-- The prefix of all shards.
local function base_prefix(prefix) return (prefix:gsub(SHARD, '')) end

-- The number of the shard as text; nil where there is only one.
local function shard_number(prefix) return prefix:match(SHARD) end
