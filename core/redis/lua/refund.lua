-- 'f', 'F': refunds of single token buckets.

local inc, ticket, reserved = argv[a + 2] + 0, argv[a + 3] + 0, argv[a + 4] == '1'
local n, inc_r, ticket_r = 1, 0, 0
a = a + 5
if op == 'F' then
  n, inc_r, ticket_r = argv[a] + 0, argv[a + 1] + 0, argv[a + 2] + 0
  a = a + 3
end
-- give = min(inc, ticket - now)
local give, give_r = ticket - now, ticket_r
if give > inc or (give == inc and give_r > inc_r) then give, give_r = inc, inc_r end
for i = first, last do
  local key = keys[i]
  local v = call('GET', key)
  local q, r, failed = now, 0, nil
  local given = 0
  if v then
    local stored_r
    v, stored_r, failed = parse(v, n)
    if v and (v > now or (v == now and stored_r > 0)) then
      q, r = v, stored_r
      if (give > 0 or (give == 0 and give_r > 0)) and
          (not reserved or (q == ticket and r == ticket_r)) then
        given = 1
        q, r = q - give, r - give_r
        if r < 0 then q, r = q - 1, r + n end
        if q < now then q, r = now, 0 end
        failed = write(key, q, r, n)
      end
    end
  end
  size = size + 1
  if failed then
    reply[size] = failed
  else
    reply[size], reply[size + 1] = given, q - now
    size = size + 1
    if op == 'F' then
      size = size + 1
      reply[size] = r
    end
  end
end
