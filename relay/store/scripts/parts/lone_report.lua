-- lone_report.lua: stores the most frequent report: a first delivery to one user. To define the functions of
-- report.lua would cost the store several times as much. Requires `call` and `prefix`.
-- include: clock.lua
-- include: trace_event.lua
-- include: due_score.lua

-- Returns the reply of report.lua; nil, without a write, if report.lua must check or store more.
local function store_lone_report()
    local timeout, base, cap, trace_ms, kind, user, id = unpack(ARGV, 2, 8)
    local conn = #ARGV == 8 and kind:match('^S(%S*)')
    local value = conn and call('HGET', prefix .. KEY_PENDING, id)
    -- The fields of pending_value.lua that change nothing here, and t.
    local entry, backoff, fields = (value or ''):match('^(%S+) %-?%d+ b(%S)([ atlxow%d]*)$')
    if not entry or call('HGET', prefix .. KEY_ACK .. id, user) ~= '0' then return nil end
    local now = now_ms()
    if backoff ~= '-' then
        local notification = {backoff = backoff, ack_timeout = fields:match(' t(%d+)')}
        call('ZADD', prefix .. KEY_DUE, 'GT', due_score.of_delivery(notification, id, 0, now, timeout + 0, base + 0, cap + 0),
            id .. ':' .. user)
    end
    write_event(id, 'sent ' .. integer_text(now) .. ' 0 ' .. (conn == '' and '-' or conn) .. ' ' .. user, entry, trace_ms)
    return {}
end
