-- audience.lua: finds the users of an audience. Requires `call` and `prefix`.

-- Splits a composite audience, or its target, at each + that is not preceded by a backslash.
local function parts_of(text)
    local parts, part, from = {}, '', 1
    while true do
        local at = text:find('[+\\]', from)
        part = part .. text:sub(from, (at or 0) - 1)
        if not at then break end
        if text:sub(at, at) == '+' then
            parts[#parts + 1], part, from = part, '', at + 1
        else
            part, from = part .. text:sub(at + 1, at + 1), at + 2
        end
    end
    parts[#parts + 1] = part
    return parts
end

-- Returns the kinds of a composite audience; nil for another audience.
local function kinds_of(audience) return audience:find('+', 1, true) and parts_of(audience) or nil end

-- Returns the keys of the sets whose intersection are the users of a target; nil: nobody.
local function member_keys(audience, kinds, target)
    if not kinds then return {prefix .. KEY_MEMBERS .. audience .. ':' .. target} end
    local keys, parts = {}, parts_of(target)
    if #parts ~= #kinds then return nil end
    for i, kind in ipairs(kinds) do keys[i] = prefix .. KEY_MEMBERS .. kind .. ':' .. parts[i] end
    return keys
end

-- Returns the number of groups that must be looked up.
local function group_count(audience, target_count)
    if audience == 'USER' then return 0 end
    local kinds = kinds_of(audience)
    return target_count * (kinds and #kinds or 1)
end

-- Returns the groups to look up and an upper bound of the users, in few commands: both cost time,
-- even if the groups are empty.
local function audience_size(audience, targets)
    if audience == 'USER' then return #targets end
    local kinds, size = kinds_of(audience), group_count(audience, #targets)
    if size > STORE_PAIRS_MAX then return size end
    for _, target in ipairs(targets) do
        local least = math.huge
        for _, key in ipairs(member_keys(audience, kinds, target) or {}) do
            least = math.min(least, call('SCARD', key))
            if least == 0 then break end
        end
        size = size + (least < math.huge and least or 0)
    end
    return size
end

local function users_of(audience, targets)
    if audience == 'USER' and #targets == 1 then return targets end -- the typical case
    local users, seen = {}, {}
    local function add(user)
        if not seen[user] then
            seen[user] = true
            users[#users + 1] = user
        end
    end
    local kinds = kinds_of(audience)
    for _, target in ipairs(targets) do
        if audience == 'USER' then
            add(target)
        else
            local keys = member_keys(audience, kinds, target)
            local found = not keys and {} or #keys == 1 and call('SMEMBERS', keys[1]) or call('SINTER', unpack(keys))
            for _, user in ipairs(found) do add(user) end
        end
    end
    return users
end
