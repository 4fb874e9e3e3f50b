-- Fixed windows and calendars. Stored as "end count": the end of the window, and what was charged
-- in it. A window goes on until its end, whatever its rule's period is by now. No value: none is
-- under way.

-- The window that is under way: end, count; 0, 0 when none is.
local function read(entry, v)
  if not v then return 0, 0 end
  local finish, used = string.match(v, '^(%d+) (%d+)$')
  if finish then
    finish, used = finish + 0, used + 0
    if finish <= max_q and used <= max_count then
      entry.ahead_of_old = finish - now
      if finish > now then return finish, used end
      return 0, 0
    end
  end
  return nil, {err = 'SAQIYACORRUPT the value is not a fixed window'}
end

local function store(entry, finish, used)
  entry.next, entry.ahead = format('%d %d', finish, used), finish - now
end

if op == 'g' then
  return 3, function(entry, v)
    local cost = entry[1]
    local fresh_end = entry.fresh_end
    if not fresh_end then
      return nil, {err = 'SAQIYARANGE none of the calendar windows holds the present'}
    end
    local finish, used = read(entry, v)
    if not finish then return nil, used end
    if finish == 0 then finish = fresh_end end
    -- Not used + cost: that may exceed 2^53.
    entry.fits = cost == 0 or used <= entry[2] - cost
    if charging and entry.fits and cost > 0 then store(entry, finish, used + cost) end
    return finish, used
  end
end

return 2, function(entry, v)
  local finish, used = read(entry, v)
  if not finish then return nil, used end
  if finish == 0 or finish ~= entry[2] then return 0, finish, used end
  local changed = used + entry[1]
  if changed < 0 then changed = 0 end
  if changed > max_count then changed = max_count end
  if changed == 0 then
    entry.next = false
  elseif changed ~= used then
    store(entry, finish, changed)
  end
  return 1, finish, changed
end
