-- 'g': requests of several entries, of which all fit or none is charged. Every entry's state is
-- read and looked at; then, if all went well, what is to change is written. When a write fails,
-- those before it are undone, the newest first: the old values are put back.
--
-- Defines run_asks(a, first, count): runs a group whose arguments (those behind 'g') begin at
-- argv[a] and whose keys begin at keys[first]. Returns where the next group's arguments begin and
-- the number of its last key and the new size of the reply; nothing when the arguments are not
-- understood.
--
-- Most requests come through here, and tables and function calls are dear: what the requests of a
-- group share is kept in a list for each argument, and token buckets, fixed windows and calendars
-- are looked at in the loop itself. The other algorithms have their functions (see group.lua). What
-- the values look like: token_bucket.lua, adjust_window.lua, and the files of the others.

-- The end of the calendar window that holds now, of the k windows whose edges begin at argv[a]; nil
-- when none does.
local function find_window(k, a)
  if now < argv[a] + 0 then return nil end
  for i = a + 1, a + k do
    local edge = argv[i] + 0
    if now < edge then return edge end
  end
end

-- The values of keys[from] to keys[upto], in a list: false for none, a table for an error.
local function read_values(from, upto)
  -- One call for all is cheaper, but for a few. It shows a key of another type as none: those that
  -- it misses must not exist. When they do, or MGET is not permitted, keys are read one by one.
  if upto - from > 3 then
    local values = call('MGET', unpack(keys, from, upto))
    if not values.err then
      local missing, m = {}, 0
      for i = from, upto do
        if not values[i - from + 1] then
          m = m + 1
          missing[m] = keys[i]
        end
      end
      if m == 0 or call('EXISTS', unpack(missing)) == 0 then return values end
    end
  end
  local values = {}
  for i = from, upto do values[i - from + 1] = call('GET', keys[i]) end
  return values
end

run_asks = function(a, first, count)
  local n, write = argv[a] + 0, argv[a + 1] == '1'
  if n < 1 then return nil end
  a = a + 2

  -- By the entry's number: its kind ('B': a token bucket whose N is above 1), what it charges (inc,
  -- cost), whether that is anything, and up to where it fits (an instant, a count).
  local kinds, costs, charges, rooms = {}, {}, {}, {}
  -- Of token buckets: N, and the remainders of cost and room.
  local units, cost_rests, room_rests = {}, {}, {}
  -- Of fixed windows and calendars: the end of a window that begins now; false when there is none.
  local fresh_ends = {}
  -- Of the others.
  local entries = {}
  for j = 1, n do
    local kind = argv[a]
    kinds[j] = kind
    if kind == 'b' then
      local inc, inc_r = argv[a + 2] + 0, argv[a + 3] + 0
      units[j], costs[j], cost_rests[j] = argv[a + 1] + 0, inc, inc_r
      if units[j] > 1 then kinds[j] = 'B' end
      charges[j] = inc > 0 or inc_r > 0
      rooms[j], room_rests[j] = argv[a + 4] + now, argv[a + 5] + 0
      a = a + 6
    elseif kind == 'f' or kind == 'c' then
      -- number: the period, or how many windows there are.
      local cost, limit, number = argv[a + 1] + 0, argv[a + 2] + 0, argv[a + 3] + 0
      costs[j], charges[j] = cost, cost > 0
      -- Not used + cost <= limit: that may exceed 2^53.
      rooms[j] = cost > 0 and limit - cost or max_count
      a = a + 4
      if kind == 'f' then
        fresh_ends[j] = now - now % number + number
      else
        fresh_ends[j] = find_window(number, a) or false
        a = a + number + 1
      end
    else
      local entry
      entry, a = read_entry('g', a)
      if not a then return nil end
      entries[j], charges[j] = entry, entry[1] > 0
    end
  end

  -- Of the request at hand, as long as all fits: the entries' states if they are charged, q and r
  -- of a bucket, end and count of a window.
  local states, state_rests = {}, {}
  -- The values that the charge has replaced.
  local olds = {}

  -- Puts back what entry j had.
  local function undo(j, key)
    local kind, old = kinds[j], olds[j]
    local ahead
    if not old then
      ahead = 0
    elseif kind == 'b' or kind == 'B' then
      ahead = parse(old, units[j]) - now + 1
    elseif kind == 'f' or kind == 'c' then
      ahead = match(old, '^%d+') - now
    else
      ahead = entries[j].ahead_of_old
    end
    put(key, old, ahead)
  end

  latest = {}
  local size = size
  local last = first + count * n - 1
  -- values: what the keys from values_from to values_upto had, before this group wrote any.
  local values, values_from, values_upto = nil, first, first - 1
  local has_written = false
  for i = first, last, n do
    if i > values_upto then
      values_from, values_upto = i, i + n * math.ceil(500 / n) - 1
      if values_upto > last then values_upto = last end
      values = read_values(values_from, values_upto)
    end
    local ok_at = size + 1
    local failed
    local written = 0  -- the entries up to here have been
    charging = write
    size = ok_at
    reply[ok_at] = 1
    for j = 1, n do
      local kind, v = kinds[j], nil
      if has_written then v = latest[keys[i + j - 1]] end
      if v == nil then v = values[i + j - values_from] end
      if v and v.err then
        failed = v
        break
      end
      if kind == 'b' then
        local q = now
        if v then
          -- parse(v, 1), its common case inlined.
          if find(v, '^%d+$') then
            v = v + 0
            if v > max_q then failed = {err = foreign} end
          else
            local _
            v, _, failed = parse(v, 1)
          end
          if failed then break end
          if v > q then q = v end
        end
        q = q + costs[j]
        local over = q - rooms[j]
        reply[size + 1], reply[size + 2] = over, 0
        size = size + 2
        if over > 0 and charges[j] then
          reply[ok_at], charging = 0, false
        elseif charging then
          states[j] = q
        end
      elseif kind == 'f' or kind == 'c' then
        local finish, used = fresh_ends[j], 0
        if not finish then
          failed = {err = 'SAQIYARANGE none of the calendar windows holds the present'}
          break
        end
        if v then
          local stored_end, stored_used = match(v, '^(%d+) (%d+)$')
          if stored_end then
            stored_end, stored_used = stored_end + 0, stored_used + 0
          end
          if not stored_end or stored_end > max_q or stored_used > max_count then
            failed = {err = foreign_window}
            break
          end
          if stored_end > now then finish, used = stored_end, stored_used end
        end
        reply[size + 1], reply[size + 2] = finish, used
        size = size + 2
        if used > rooms[j] then
          reply[ok_at], charging = 0, false
        elseif charging then
          states[j], state_rests[j] = finish, used + costs[j]
        end
      elseif kind == 'B' then
        local unit = units[j]
        local q, r = now, 0
        if v then
          q, r, failed = parse(v, unit)
          if failed then break end
          if q < now then q, r = now, 0 end
        end
        q, r = q + costs[j], r + cost_rests[j]
        if r >= unit then q, r = q + 1, r - unit end
        local over, over_r = q - rooms[j], r - room_rests[j]
        if over_r < 0 then over, over_r = over - 1, over_r + unit end
        reply[size + 1], reply[size + 2] = over, over_r
        size = size + 2
        if (over > 0 or (over == 0 and over_r > 0)) and charges[j] then
          reply[ok_at], charging = 0, false
        elseif charging then
          states[j], state_rests[j] = q, r
        end
      else
        local entry = entries[j]
        local x, y, z = entry.look(entry, v)
        if not x then
          failed = y
          break
        end
        reply[size + 1], reply[size + 2], reply[size + 3] = x, y, z
        size = size + 3
        if not entry.fits then reply[ok_at], charging = 0, false end
      end
    end
    if charging and not failed then
      for j = 1, n do
        if charges[j] then
          local key, kind, x, y = keys[i + j - 1], kinds[j], states[j], state_rests[j]
          local old = latest[key]
          if old == nil then old = values[i + j - values_from] end
          olds[j] = old
          if kind == 'b' or (kind == 'B' and y == 0) then
            failed = put(key, format('%d', x), x - now)
          elseif kind == 'f' or kind == 'c' then
            failed = put(key, format('%d %d', x, y), x - now)
          elseif kind == 'B' then
            failed = put(key, format('%d %d %d', x, y, units[j]), x - now + 1)
          else
            failed = put(key, entries[j].next, entries[j].ahead)
          end
          if failed then break end
          has_written = true
        end
        written = j
      end
    end
    if failed then
      for j = written, 1, -1 do
        if charges[j] then undo(j, keys[i + j - 1]) end
      end
      for k = ok_at + 1, size do reply[k] = nil end
      size = ok_at
      reply[size] = failed
    end
  end
  return a, last, size
end
