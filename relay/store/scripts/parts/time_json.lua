-- time_json.lua: writes the times of receipts.

-- Returns a time in ms, or null, in the form of metadata.timestamp, as JSON.
local second_texts, time_texts = {}, {null = 'null'}
local function time_json(ms_text)
    local text = time_texts[ms_text]
    if text then return text end
    local ms = tonumber(ms_text)
    local second = math.floor(ms / 1000)
    if not second_texts[second] then
        -- The years of this calendar begin in March, so that the leap day is the last one.
        local day = math.floor(second / 86400) + 719468
        local era = math.floor(day / 146097)
        local of_era = day - era * 146097
        local year = math.floor((of_era - math.floor(of_era / 1460) + math.floor(of_era / 36524) -
            math.floor(of_era / 146096)) / 365)
        local of_year = of_era - 365 * year - math.floor(year / 4) + math.floor(year / 100)
        local month = math.floor((5 * of_year + 2) / 153)
        local of_month = of_year - math.floor((153 * month + 2) / 5) + 1
        second_texts[second] = string.format('"%04d-%02d-%02dT%02d:%02d:%02d.', year + era * 400 + (month < 10 and 0 or 1),
            month < 10 and month + 3 or month - 9, of_month, math.floor(second / 3600) % 24, math.floor(second / 60) % 60,
            second % 60)
    end
    text = second_texts[second] .. string.format('%03d000Z"', ms % 1000)
    time_texts[ms_text] = text
    return text
end
