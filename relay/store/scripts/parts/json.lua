-- json.lua: writes JSON, because cjson encodes an empty table as an object, never as an array.

local text_of = cjson.encode -- encodes a string
local function number_of(number) return string.format('%.0f', tonumber(number) or 0) end
local function array_of(texts) return '[' .. table.concat(texts, ',') .. ']' end
