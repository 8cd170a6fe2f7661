-- json.lua: JSON where cjson alone could not tell an empty array from an empty object.

local text_of = cjson.encode -- of a string
local function number_of(number) return string.format('%.0f', tonumber(number) or 0) end
local function array_of(texts) return '[' .. table.concat(texts, ',') .. ']' end
