-- keys.lua: parses the prefix of a shard's keys.

local SHARD = KEY_SHARD_BEGIN .. '(%d+)' .. KEY_SHARD_END .. '$'

-- Returns the prefix of all shards.
local function base_prefix(prefix) return (prefix:gsub(SHARD, '')) end

-- Returns the shard's number as a string; nil if there is only one shard.
local function shard_number(prefix) return prefix:match(SHARD) end
