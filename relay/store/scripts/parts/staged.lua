-- staged.lua: the hash of a notification's users before the notification is added.

-- This field marks a hash that has all users. No user has this name.
local STAGED_ALL = ''
