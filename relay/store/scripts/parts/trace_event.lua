-- trace_event.lua: the trace of a notification. Requires `call` and `prefix`.

-- The trace is a list of events: stage, ms, attempt, detail, user. The list starts with `stored`, and expires
-- after `trace_ms`.
local TRACE_EVENTS_MAX = 512

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
local function write_event(id, event, entry, trace_ms)
    local key = prefix .. KEY_TRACE .. id
    maintain_trace(key, call('RPUSH', key, event), 1, entry, trace_ms)
end
