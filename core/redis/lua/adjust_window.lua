-- Adjusting fixed windows and calendars. Stored as "end count": the end of the window, and what was
-- charged in it. A window goes on until its end, whatever its rule's period is by now. No value:
-- none is under way. Asking is in ask.lua.

return 2, function(entry, v)
  if not v then return 0, 0, 0 end
  local finish, used = match(v, '^(%d+) (%d+)$')
  if finish then finish, used = finish + 0, used + 0 end
  if not finish or finish > max_q or used > max_count then
    return nil, {err = foreign_window}
  end
  entry.ahead_of_old = finish - now
  if finish <= now then return 0, 0, 0 end
  if finish ~= entry[2] then return 0, finish, used end
  local changed = used + entry[1]
  if changed < 0 then changed = 0 end
  if changed > max_count then changed = max_count end
  if changed == 0 then
    entry.next = false
  elseif changed ~= used then
    entry.next, entry.ahead = format('%d %d', finish, changed), finish - now
  end
  return 1, finish, changed
end
