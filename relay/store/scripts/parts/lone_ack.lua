-- lone_ack.lua: stores the most frequent ack: one user's of one notification, which it completes. To define the
-- functions of ack.lua would cost the store several times as much. Requires `call`, `stream` and `prefix`.
-- include: clock.lua
-- include: stored_value.lua
-- include: trace_event.lua
-- include: ack_events.lua

-- Returns the reply of ack.lua; nil, without a write, if ack.lua must check or store more.
local function store_lone_ack()
    local name, trace_ms, _, user, _, id = unpack(ARGV, 2, 7)
    if #ARGV ~= 7 then return nil end
    local value = call('HGET', prefix .. KEY_PENDING, id)
    local entry = value and entry_before_last_ack(value)
    local ended = entry and call('HGET', prefix .. KEY_ENDED, user)
    if not ended or #ended + 1 + #entry > STORE_ENDED_BYTES_MAX or call('ZREM', prefix .. KEY_PENDING_LIST .. user, id) == 0 then
        return nil
    end
    if has_other_relays(name) then add_ack_event(name, pack_text(user) .. pack_text(id)) end
    call('ZREM', prefix .. KEY_DUE, id .. ':' .. user)
    call('XACK', stream, 'clairon', entry)
    call('UNLINK', prefix .. KEY_ACK .. id)
    call('HDEL', prefix .. KEY_PENDING, id) -- last of the state: see verify_pending.lua
    call('HSET', prefix .. KEY_ENDED, user, ended .. ' ' .. entry)
    write_event(id, 'acked ' .. integer_text(now_ms()) .. ' 0 - ' .. user, entry, trace_ms)
    return {1, 1}
end
