-- control_stream.lua: writes changes to the control stream. Requires `call` and `prefix`.

-- The changes for relays. Many share an entry of the control stream, because the stream is trimmed
-- by its number of entries, and a relay that finds it trimmed reads all of its state again.
local CHANGES_MAX = 100
local changes, change_count = {}, 0
local function write_changes()
    if change_count == 0 then return end
    call('XADD', prefix .. KEY_CONTROL, 'MAXLEN', '~', STORE_CONTROL_MAX, '*', unpack(changes))
    changes, change_count = {}, 0
end

local function add_change(...)
    for _, text in ipairs({...}) do changes[#changes + 1] = text end
    change_count = change_count + 1
    if change_count == CHANGES_MAX then write_changes() end
end

local function add_reload(source, rule, xid)
    add_change('change', 'reload', 'source', source, 'rule', rule, 'xid', xid)
end
