-- Token buckets, decided in order: the second writing of core/token_bucket.h.
--
-- KEYS     one per request; a key may come twice and is then decided twice.
-- ARGV[1]  '' to use the server's clock; under test, "now" in microseconds.
-- ARGV[2]  and on: groups of consecutive requests that share their arguments:
--            count 'c' inc bound            check: inc charges, bound is how far ahead it may get
--            count 'p' inc bound            peek: as check, writes nothing
--            count 'f' inc ticket reserved  refund; reserved is '1' for a reservation
--            count 'x'                      reset
--          For a rule whose N is above 1 instants have a remainder in units of 1/N. The letter is
--          then a capital one and three more arguments follow: N, inc's and bound's (or ticket's)
--          remainder.
-- Reply    now, then for each request one of
--            check, peek  over = max(full_at, now) + inc - bound - now (its remainder follows when
--                         N > 1); a charge was made when it is at most 0
--            refund       1 or 0: given back or not; then full_at - now (and its remainder)
--            reset        0
--            an error     of this request alone
--
-- A stored value is q, or "q r N" with a remainder. Every number here is an integer below 2^53 and
-- is written with %d: tostring() would round it. Every write carries its expiry, so no key is ever
-- without one. Only reset replaces a value that is not of these forms.

local call, find, format = redis.pcall, string.find, string.format
local keys, argv = KEYS, ARGV

-- Keys live until they are full, but not shorter than this (ms): long under test, where real time
-- must not race the given one.
local now, least = argv[1], 1
if now == '' then
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2]
else
  now, least = now + 0, 3600000
end

local max_q = 6755399441055744
local foreign = 'SAQIYACORRUPT the value is not a token bucket'

-- What GET gave, as q, r in units of 1/n; or nil, nil and an error.
local function parse(v, n)
  if v.err then return nil, nil, v end
  if find(v, '^%d+$') then
    v = v + 0
    if v <= max_q then return v, 0 end
  else
    local q, r, m = string.match(v, '^(%d+) (%d+) (%d+)$')
    if q then
      q, r, m = q + 0, r + 0, m + 0
      if q <= max_q and r < m and m < 4294967296 then
        if m == n or r == 0 then return q, r end
        return q + 1, 0
      end
    end
  end
  return nil, nil, {err = foreign}
end

-- Stores an instant, q + r/n. Returns the server's error, if there was one.
local function write(key, q, r, n)
  local ahead = q - now
  local value
  if r > 0 then
    ahead = ahead + 1
    value = format('%d %d %d', q, r, n)
  else
    value = format('%d', q)
  end
  local px = (ahead + 1999) / 1000
  if px < least then px = least end
  local done = call('SET', key, value, 'PX', format('%d', px))
  if done.err then return done end
end

local reply, size = {now}, 1
local first, a = 1, 2
local count = argv[2]
while count do
  local op = argv[a + 1]
  local last = first + count - 1

  if op == 'c' or op == 'p' then
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

  elseif op == 'C' or op == 'P' then
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

  elseif op == 'f' or op == 'F' then
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

  elseif op == 'x' then
    a = a + 2
    for i = first, last do
      local done = call('DEL', keys[i])
      if type(done) == 'number' then done = 0 end
      size = size + 1
      reply[size] = done
    end

  else
    return {err = 'ERR saqiya: unknown operation'}
  end

  first = last + 1
  count = argv[a]
end
return reply
