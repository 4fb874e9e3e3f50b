-- Sliding windows. Stored as "end previous current": the end of the window under way, and what was
-- charged in the window before it and in it. No value: nothing was.

-- The state as of now: end, previous, current.
local function read(entry, v, period)
  local fresh_end = now - now % period + period
  if not v then return fresh_end, 0, 0 end
  local finish, previous, current = string.match(v, '^(%d+) (%d+) (%d+)$')
  if finish then
    finish, previous, current = finish + 0, previous + 0, current + 0
    if finish <= max_q and previous <= max_sliding and current <= max_sliding then
      if now >= finish + period then
        finish, previous, current = fresh_end, 0, 0
      elseif now >= finish then
        -- The next one, also when the period has changed and its end is not aligned.
        finish, previous, current = finish + period, current, 0
      end
      entry.ahead_of_old = finish - now
      if current > 0 then entry.ahead_of_old = finish - now + period end
      return finish, previous, current
    end
  end
  return nil, {err = 'SAQIYACORRUPT the value is not a sliding window'}
end

-- ceil(previous * x / period), exactly. previous < 2^32, 0 <= x <= period <= 2^50.
local function weigh(previous, x, period)
  local product = previous * x
  if product < 9007199254740992 then
    local rest = product % period
    if rest == 0 then return product / period end
    return (product - rest) / period + 1
  end
  -- Bit after bit of previous, the highest first; rest stays below 3 * 2^50.
  local quotient, rest = 0, 0
  local bit_value = 2147483648
  repeat
    quotient, rest = quotient * 2, rest * 2
    if previous >= bit_value then
      previous = previous - bit_value
      rest = rest + x
    end
    while rest >= period do quotient, rest = quotient + 1, rest - period end
    bit_value = bit_value / 2
  until bit_value < 1
  if rest > 0 then quotient = quotient + 1 end
  return quotient
end

local function store(entry, finish, previous, current, period)
  entry.next = format('%d %d %d', finish, previous, current)
  entry.ahead = finish - now
  if current > 0 then entry.ahead = entry.ahead + period end
end

if op == 'g' then
  return 3, function(entry, v)
    local cost, period = entry[1], entry[3]
    local finish, previous, current = read(entry, v, period)
    if not finish then return nil, previous end
    if cost == 0 then
      entry.fits = true
    else
      local x = finish - now
      if x > period then x = period end
      local weighted = 0
      if previous > 0 then weighted = weigh(previous, x, period) end
      entry.fits = weighted + current <= entry[2] - cost
      if charging and entry.fits then store(entry, finish, previous, current + cost, period) end
    end
    return finish, previous, current
  end
end

local function clamp(used)
  if used < 0 then return 0 end
  if used > max_sliding then return max_sliding end
  return used
end

return 3, function(entry, v)
  local delta, charged_end, period = entry[1], entry[2], entry[3]
  local finish, previous, current = read(entry, v, period)
  if not finish then return nil, previous end
  if previous == 0 and current == 0 then return 0, finish, 0, 0 end
  local new_previous, new_current, done = previous, current, 1
  if finish == charged_end then
    new_current = clamp(current + delta)
  elseif finish - period == charged_end and previous > 0 then
    new_previous = clamp(previous + delta)
  else
    done = 0
  end
  if new_previous == 0 and new_current == 0 then
    entry.next = false
  elseif new_previous ~= previous or new_current ~= current then
    store(entry, finish, new_previous, new_current, period)
  end
  return done, finish, new_previous, new_current
end
