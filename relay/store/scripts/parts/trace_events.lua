-- trace_events.lua: the traces of notifications, and the acknowledgements that are kept with them. Requires
-- notifications.lua up to its functions for notifications.

local kept = {} -- whether a notification's acks are stored separately from its trace
local add_event, record_event, write_event, write_events, keep_acks, record_acks
do
    -- The trace of a notification is a list of events: stage, ms, attempt, detail, user. The list
    -- starts with `stored`, and expires after `trace_ms`.
    local TRACE_EVENTS_MAX = 512
    local traces, trace_ids, trace_entries = {}, {}, {}
    function add_event(id, event)
        local events = traces[id]
        if not events then
            traces[id] = event -- most notifications have one event per call
            trace_ids[#trace_ids + 1] = id
            local notification = notification_of(id)
            trace_entries[id] = notification and notification.entry
        elseif type(events) == 'string' then
            traces[id] = {events, event}
        elseif #events < TRACE_EVENTS_MAX then
            events[#events + 1] = event
        end
    end

    -- Adds a non-empty list of events that are older than the events already added.
    local function add_earlier(id, events)
        local newer = traces[id]
        if not newer then add_event(id, events[1]) end
        if type(newer) == 'string' then newer = {newer} end
        for _, event in ipairs(newer or {}) do events[#events + 1] = event end
        traces[id] = events
    end

    function record_event(id, stage, now_text, attempt, detail, user)
        add_event(id, stage .. ' ' .. now_text .. ' ' .. attempt .. ' ' .. detail .. ' ' .. user)
    end

    -- Starts a new trace, or shortens a long trace. `len` is its length after `count` events were
    -- added.
    local function maintain_trace(key, len, count, entry, trace_ms)
        if len == count then
            if entry then
                call('LPUSH', key, 'stored ' .. entry:match('^%d+') .. ' 0 ' .. entry .. ' -')
            end
            call('PEXPIRE', key, trace_ms)
        elseif len > TRACE_EVENTS_MAX then
            local first = call('LINDEX', key, 0) -- the event `stored`
            call('LTRIM', key, 1 - TRACE_EVENTS_MAX, -1)
            call('LPUSH', key, first)
        end
    end

    -- Adds one event to a trace, which may be new.
    function write_event(id, event, entry, trace_ms)
        local key = prefix .. KEY_TRACE .. id
        maintain_trace(key, call('RPUSH', key, event), 1, entry, trace_ms)
    end

    function write_events(trace_ms)
        for _, id in ipairs(trace_ids) do
            local events = traces[id]
            if type(events) == 'string' then
                write_event(id, events, trace_entries[id], trace_ms)
            else
                local key = prefix .. KEY_TRACE .. id
                maintain_trace(key, call('RPUSH', key, unpack(events)), #events, trace_entries[id], trace_ms)
            end
        end
        for id, is_renewal in pairs(kept) do
            if is_renewal then call('PEXPIRE', prefix .. KEY_ACKED .. id, trace_ms) end
        end
    end

    -- Renames the state of a completed notification and keeps the state as long as the trace. This is
    -- cheaper than separate events. The state of a large audience is not kept. After a redrive, the first state
    -- remains.
    function keep_acks(id)
        local key = prefix .. KEY_ACK .. id
        local count = call('HLEN', key)
        if count == 0 or count > TRACE_EVENTS_MAX then return false end
        kept[id] = call('RENAMENX', key, prefix .. KEY_ACKED .. id) == 1
        return kept[id]
    end

    -- Returns pairs of user and state as a flat list, up to about TRACE_EVENTS_MAX users.
    local function acks_of(key)
        local states, cursor = {}, '0'
        repeat
            local page = call('HSCAN', key, cursor, 'COUNT', TRACE_EVENTS_MAX)
            cursor = page[1]
            for _, text in ipairs(page[2]) do states[#states + 1] = text end
        until cursor == '0' or #states >= 2 * TRACE_EVENTS_MAX
        return states
    end

    -- Converts acks to events if their state is not kept.
    function record_acks(id)
        local states, events, count = acks_of(prefix .. KEY_ACK .. id), {}, 0
        for i = 2, #states, 2 do
            if states[i] ~= '0' and count < TRACE_EVENTS_MAX then
                count = count + 1
                events[count] = 'acked ' .. states[i] .. ' 0 - ' .. states[i - 1]
            end
        end
        if count > 0 then add_earlier(id, events) end
    end
end
