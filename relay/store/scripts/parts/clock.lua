-- clock.lua: the time of the store, and numbers as text. Requires `call`.

local function now_ms()
    local time = call('TIME')
    return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function integer_text(number) return string.format('%.0f', number) end
