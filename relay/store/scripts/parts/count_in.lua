-- count_in.lua: the number of receipts of a stream entry (receipts.lua).
local function count_in(fields) return fields[1] == 'n' and tonumber(fields[2]) or 1 end
