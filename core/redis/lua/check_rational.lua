-- 'C', 'P': checks and peeks under a rule whose N is above 1.

local inc, bound, charge = argv[a + 2] + 0, argv[a + 3] + now, op == 'C'
local n, inc_r, bound_r = argv[a + 4] + 0, argv[a + 5] + 0, argv[a + 6] + 0
a = a + 7
for i = first, last do
  local key = keys[i]
  local v = call('GET', key)
  local q, r, failed = now, 0, nil
  if v then
    local stored_r
    v, stored_r, failed = parse(v, n)
    if v and v >= q then q, r = v, stored_r end
  end
  size = size + 1
  if failed then
    reply[size] = failed
  else
    q, r = q + inc, r + inc_r
    if r >= n then q, r = q + 1, r - n end
    local over, over_r = q - bound, r - bound_r
    if over_r < 0 then over, over_r = over - 1, over_r + n end
    if charge and (over < 0 or (over == 0 and over_r == 0)) then
      failed = write(key, q, r, n)
    end
    if failed then
      reply[size] = failed
    else
      reply[size], reply[size + 1] = over, over_r
      size = size + 1
    end
  end
end
