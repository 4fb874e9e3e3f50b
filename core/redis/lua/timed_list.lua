-- Sliding logs ('l') and leases of concurrency ('n'; 'm' renews one). Both are a list of records in
-- the order of their instants, in binary, big-endian:
--   log     'L', last 7 bytes, total 6 bytes; records: instant 6 bytes, cost 2 bytes
--   leases  'N', last 7 bytes, total 6 bytes; records: instant 6 bytes, cost 2 bytes, id 8 bytes
-- last is the newest record's instant, total the sum of all costs, whether they still count or not.
-- A record has its instant modulo 2^48: it is the one that is less than 2^48 before last. A record
-- counts until its instant (leases) or until the period after it (log). At least one record, all
-- costs at least 1. In a log all records of one instant but the last have the largest cost.
-- No value: no records.
--
-- Only the records that matter to a request are unpacked: the dead ones at the front, those that
-- must go before a cost fits, those that change. A write drops the dead ones.

local unpack, pack, sub, rep = struct.unpack, struct.pack, string.sub, string.rep
local is_log = kind == 'l'
local letter, width = 78, 16
if is_log then letter, width = 76, 8 end
local wrap, max_cost = 281474976710656, 65535
local foreign_list = {err = 'SAQIYACORRUPT the value is not a list of leases'}
if is_log then foreign_list.err = 'SAQIYACORRUPT the value is not a sliding log' end

-- The record at a position of s: instant, cost. Its newest is at `last`.
local function at(s, position, last)
  local low, cost = unpack('>I6I2', s, position)
  return last - (last - low) % wrap, cost
end

-- The list without its dead records: where they end, sum, newest instant. 0, 0, 0 when none is
-- left. plus: how long after its instant a record counts. Or nil and an error.
local function read(entry, v, plus)
  if not v then return 0, 0, 0 end
  local n = (#v - 14) / width
  if n < 1 or n % 1 ~= 0 then return nil, foreign_list end
  local head, last, total = unpack('>BI7I6', v)
  if head ~= letter or last > max_q or total < n or total > max_sliding or
      total > n * max_cost or at(v, #v - width + 1, last) ~= last then
    return nil, foreign_list
  end
  entry.ahead_of_old = last + plus - now
  if last + plus <= now then return 0, 0, 0 end
  -- This ends: the last record is not dead.
  local from, before = 15, 0
  while true do
    local t, cost = at(v, from, last)
    if t < before or cost == 0 or total < (#v - from + 1) / width then return nil, foreign_list end
    if t + plus > now then return from, total, last end
    total, before, from = total - cost, t, from + width
  end
end

-- The position in s behind the records whose instant is at most t; records begin at `from`.
local function seek(s, from, last, t)
  local low, high = 0, (#s - from + 1) / width
  while low < high do
    local middle = math.floor((low + high) / 2)
    if at(s, from + middle * width, last) <= t then low = middle + 1 else high = middle end
  end
  return from + low * width
end

-- records: all of them; none deletes the key.
local function store(entry, records, used, last, plus)
  if records == '' then
    entry.next = false
  else
    entry.next = pack('>BI7I6', letter, last, used) .. records
    entry.ahead = last + plus - now
  end
end

-- The instant at which `need` will have gone, of the records from `from` on, or all will.
local function gone_at(v, from, last, plus, need)
  local t, cost = last, 0
  while need > 0 and from <= #v do
    t, cost = at(v, from, last)
    need, from = need - cost, from + width
  end
  return t + plus
end

-- A log's records of one instant.
local function records_of(t, cost)
  if cost == 0 then return '' end
  t = t % wrap
  if cost <= max_cost then return pack('>I6I2', t, cost) end
  local full = math.floor((cost - 1) / max_cost)
  return rep(pack('>I6I2', t, max_cost), full) .. pack('>I6I2', t, cost - full * max_cost)
end

-- Puts a lease among records that begin at `from` of s. Returns all records and the last instant.
local function insert(s, from, last, expiry, cost, id)
  -- Further than this before the last it could not be told (the clock went years back).
  if expiry <= last - wrap then expiry = last - wrap + 1 end
  local record = pack('>I6I2', expiry % wrap, cost) .. id
  if expiry >= last then return sub(s, from) .. record, expiry end
  local position = seek(s, from, last, expiry)
  return sub(s, from, position - 1) .. record .. sub(s, position), last
end

-- Where the lease with that id is in v; nil when it is not there.
local function find_lease(v, from, id)
  if #id ~= 8 then return nil end
  local position = from + 7
  repeat
    position = find(v, id, position + 1, true)
    if not position then return nil end
  until (position - from) % width == 8
  return position - 8
end

-- The reply about a list whose newest instant is `last`.
local function tell(done, used, last, plus)
  if used == 0 then return done, 0, 0, 0 end
  return done, used, last + plus, 0
end

if op == 'g' then
  return 3, function(entry, v)
    local cost, limit = entry[1], entry[2]
    local plus = 0
    if is_log then plus = entry[3] end
    local from, used, last = read(entry, v, plus)
    if not from then return nil, used end
    entry.fits = cost == 0 or used <= limit - cost
    local passes_at = 0
    if not entry.fits then
      if used > 0 then passes_at = gone_at(v, from, last, plus, used + cost - limit) end
    elseif charging and cost > 0 then
      v = v or ''
      if used == 0 then from = #v + 1 end
      if is_log then
        local t, in_last, upto = now, cost, #v
        if used > 0 and last >= now then
          t = last
          -- The newest records are of the same instant: the last of them may have room.
          local _, room = at(v, #v - 7, last)
          in_last, upto = cost + room, #v - 8
        end
        store(entry, sub(v, from, upto) .. records_of(t, in_last), used + cost, t, plus)
      else
        local records, newest = insert(v, from, last, now + entry[3], cost, entry.id)
        store(entry, records, used + cost, newest, 0)
      end
    end
    if used == 0 then return 0, 0, passes_at end
    return used, last + plus, passes_at
  end, not is_log
end

if is_log then
  return 3, function(entry, v)
    local t, plus = entry[2], entry[3]
    local from, used, last = read(entry, v, plus)
    if not from then return nil, used end
    if used == 0 or t > last or t + plus <= now then return tell(0, used, last, plus) end
    -- The records of that instant: [start, stop).
    local stop = seek(v, from, last, t)
    local start, old = stop, 0
    while start > from do
      local instant, cost = at(v, start - 8, last)
      if instant ~= t then break end
      start, old = start - 8, old + cost
    end
    if start == stop then return tell(0, used, last, plus) end
    local new = old + entry[1]
    if new > max_sliding - used + old then new = max_sliding - used + old end
    if new < 0 then new = 0 end
    if new ~= old then
      local records = sub(v, from, start - 1) .. records_of(t, new) .. sub(v, stop)
      used = used - old + new
      if used < 0 or (used == 0) ~= (records == '') then return nil, foreign_list end
      if used > 0 then last = at(records, #records - 7, last) end
      store(entry, records, used, last, plus)
    end
    return tell(1, used, last, plus)
  end
end

return 1, function(entry, v)
  local from, used, last = read(entry, v, 0)
  if not from then return nil, used end
  local position = used > 0 and find_lease(v, from, entry.id)
  if not position then return tell(0, used, last, 0) end
  local expiry, cost = at(v, position, last)
  local records = sub(v, from, position - 1) .. sub(v, position + 16)
  if kind == 'm' then
    if expiry ~= now + entry[1] then
      local newest = 0
      if records ~= '' then newest = at(records, #records - 15, last) end
      records, last = insert(records, 1, newest, now + entry[1], cost, entry.id)
      store(entry, records, used, last, 0)
    end
    return tell(1, used, last, 0)
  end
  local new = cost + entry[1]
  if new < 0 then new = 0 end
  if new > max_cost then new = max_cost end
  if new ~= cost then
    if new > 0 then
      records = sub(v, from, position + 5) .. pack('>I2', new) .. sub(v, position + 8)
    end
    used = used - cost + new
    if used < 0 or (used == 0) ~= (records == '') then return nil, foreign_list end
    if used > 0 then last = at(records, #records - 15, last) end
    store(entry, records, used, last, 0)
  end
  return tell(1, used, last, 0)
end, true
