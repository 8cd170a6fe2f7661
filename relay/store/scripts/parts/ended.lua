-- ended.lua: the pairs of each user that ended most recently. A session of the user that had no
-- room for these notifications receives them with a page of its pending list (pending_page.lua),
-- or, if not all of them are listed any more, from the stream. Requires notifications.lua.
-- include: last_id.lua

local entry_of_score, record_ended, write_ended
do
    -- A field contains stream entries: first one such that all later pairs that ended are listed, then
    -- the entries of these pairs, each with a trailing `!` unless the pair was acknowledged. trim.lua
    -- removes the fields of users without a recent pair: without a field, nothing is known.
    local ENDED_KEPT = 60
    local ended_text, ended_users = {}, {}

    function entry_of_score(score)
        local seq = score % STORE_SCORES_PER_MS
        return integer_text((score - seq) / STORE_SCORES_PER_MS) .. '-' .. integer_text(seq)
    end

    function record_ended(user, entries)
        if #entries == 0 then return end
        local text = table.concat(entries, ' ')
        if ended_text[user] then
            ended_text[user] = ended_text[user] .. ' ' .. text
        else
            ended_text[user] = text
            ended_users[#ended_users + 1] = user
        end
    end

    -- Keeps the end of a long list. Its first entry becomes the highest of the removed ones.
    local function shorten_ended(text)
        local entries, highest, score = {}, nil, -1
        for entry in text:gmatch('%S+') do entries[#entries + 1] = entry end
        local keep = math.min(ENDED_KEPT, math.floor(#entries / 2))
        for i = 1, #entries - keep do
            local entry = entries[i]:match('^[%d-]+')
            if score_text(entry) + 0 > score then highest, score = entry, score_text(entry) + 0 end
        end
        return highest .. ' ' .. table.concat(entries, ' ', #entries - keep + 1)
    end

    function write_ended()
        local fields, newest = {}, nil
        for from = 1, #ended_users, CHUNK do
            local last = math.min(from + CHUNK - 1, #ended_users)
            local before = call('HMGET', prefix .. KEY_ENDED, unpack(ended_users, from, last))
            for i = from, last do
                local user = ended_users[i]
                local known = before[i - from + 1]
                if not known then
                    newest = newest or last_generated_id(stream)
                    known = newest
                end
                local text = known .. ' ' .. ended_text[user]
                fields[#fields + 1] = user
                fields[#fields + 1] = #text > STORE_ENDED_BYTES_MAX and shorten_ended(text) or text
            end
        end
        call_chunked(fields, 'HMSET', prefix .. KEY_ENDED)
    end
end
