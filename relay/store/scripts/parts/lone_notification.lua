-- lone_notification.lua: stores a batch of one small notification without acks, and its commit: the most frequent batch.
-- To define the functions of ingest.lua would cost the store several times as much.
-- include: route_flag.lua

-- Returns the reply of ingest.lua; nil, without a write, if ingest.lua must check or store more.
local function store_lone_notification()
    local kind, notified, id, route, data, commit, reached, more = unpack(ARGV, FIRST, FIRST + 7)
    if kind ~= 'N' or commit and (commit ~= 'C' or more) or #route + #data >= STORE_LARGE_BYTES
        or route_flag(route, FRAME_UNDECODABLE) then return nil end
    if meta[1] ~= ARGV[2] or meta[2] or not meta[3] or state[1] ~= owner or state[4] or position < ARGV[4]
        or notified <= position then return nil end
    local fields = {}
    if ARGV[6] ~= '' then fields = {'after', ARGV[6]} end
    if read then
        fields[#fields + 1] = 'covered'
        fields[#fields + 1] = read .. '.' .. (state[5] or '')
    end
    -- The store may be full, or lack the stream.
    local entry = redis.pcall('XADD', stream, 'NOMKSTREAM', '*', 'id', id, 'route', route, 'data', data, unpack(fields))
    if type(entry) ~= 'string' then return nil end
    reached = reached or notified
    if read then
        call('HMSET', progress, 'position:' .. owner, reached, 'read:' .. owner, read)
    else
        call('HSET', progress, 'position:' .. owner, reached)
    end
    return {reached, 1, 0, entry}
end
