-- 'c', 'p': checks and peeks under a rule whose N is 1. The path that most requests take: what
-- other files do by functions is written out here.

local inc, bound, charge = argv[a + 2] + 0, argv[a + 3] + now, op == 'c'
a = a + 4
for i = first, last do
  local key = keys[i]
  local v = call('GET', key)
  local q, failed = now, nil
  if v then
    -- parse(v, 1), its common case inlined.
    if not v.err and find(v, '^%d+$') then
      v = v + 0
      if v > max_q then failed = {err = foreign} end
    else
      local _
      v, _, failed = parse(v, 1)
    end
    if not failed and v > q then q = v end
  end
  size = size + 1
  if failed then
    reply[size] = failed
  else
    q = q + inc
    local over = q - bound
    if over <= 0 and charge then
      -- write(key, q, 0, 1), inlined: this is the common path.
      local px = (q - now + 1999) / 1000
      if px < least then px = least end
      v = call('SET', key, format('%d', q), 'PX', format('%d', px))
      if v.err then over = v end
    end
    reply[size] = over
  end
end
