-- Adjusting token buckets: token_bucket.lua has the state's form. Asking is in ask.lua.

-- The stored instant, q and r in units of 1/n, when it is later than now; else now.
local function read(entry, v, n)
  local q, r, failed = now, 0, nil
  if v then
    q, r, failed = parse(v, n)
    if failed then return nil, failed end
    entry.ahead_of_old = q - now + 1
    if q < now then q, r = now, 0 end
  end
  return q, r
end

local function store(entry, q, r, n)
  if r > 0 then
    entry.next, entry.ahead = format('%d %d %d', q, r, n), q - now + 1
  else
    entry.next, entry.ahead = format('%d', q), q - now
  end
end

return 7, function(entry, v)
  local n, inc, inc_r, ticket_r = entry[1], entry[2], entry[3], entry[5]
  local ahead = entry[4] - now  -- of the ticket
  local reserved, up = entry[6] == 1, entry[7] == 1
  local q, r = read(entry, v, n)
  if not q then return nil, r end
  if q == now and r == 0 then return 0, 0, 0 end
  local done = 0
  if up then
    -- add = min(inc, ticket + inc - now): what time has given back since then is not taken again.
    local add, add_r = inc, inc_r
    if ahead < 0 then
      add, add_r = add + ahead, add_r + ticket_r
      if add_r >= n then add, add_r = add + 1, add_r - n end
    end
    if add > 0 or (add == 0 and add_r > 0) then
      done = 1
      -- Not further ahead than 2^50 us, but not back either when it is.
      local cap, cap_r = now + 1125899906842624, 0
      if q >= cap then cap, cap_r = q, r end
      local old, old_r = q, r
      q, r = q + add, r + add_r
      if r >= n then q, r = q + 1, r - n end
      if q > cap or (q == cap and r > cap_r) then q, r = cap, cap_r end
      if q ~= old or r ~= old_r then store(entry, q, r, n) end
    end
  else
    -- give = min(inc, ticket - now)
    local give, give_r = ahead, ticket_r
    if give > inc or (give == inc and give_r > inc_r) then give, give_r = inc, inc_r end
    if (give > 0 or (give == 0 and give_r > 0)) and
        (not reserved or (q == entry[4] and r == ticket_r)) then
      done = 1
      q, r = q - give, r - give_r
      if r < 0 then q, r = q - 1, r + n end
      if q < now then q, r = now, 0 end
      store(entry, q, r, n)
    end
  end
  return done, q - now, r
end
