-- The state of a token bucket: the instant at which it will be full again. Stored as q, or as
-- "q r N" for q + r/N microseconds with 0 < r < N. No value: full.

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
