-- route_flag.lua: reads one of the eight lower flags of a notification's header.

local function route_flag(route, flag) return math.floor(route:byte(FRAME_AT_COMMIT_LSN) / flag) % 2 == 1 end
