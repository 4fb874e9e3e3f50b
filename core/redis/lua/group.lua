-- 'g' and 'a': requests of several entries. Under 'g' every entry's state is read and looked at
-- first, then, if all went well, what is to change is written. Under 'a' one entry after another is
-- read and written, for they may be of one key. When something fails, the writes before it are
-- undone, the newest first: the old values are put back.
--
-- Defines run_group(op, a, first, count): runs a group whose arguments (those behind op) begin at
-- argv[a] and whose keys begin at keys[first]. Returns where the next group's arguments begin and
-- the number of its last key; nothing when the arguments are not understood.
--
-- An entry is a table, shared by the requests of its group:
--   [1], [2] ..  its numbers, in the order of the protocol; id: its lease's id, if it has one
--   look         function(entry, v), of its algorithm; v: the stored value, or false. Returns the
--                entry's part of the reply, or nil and an error. It sets
--   fits         'g': whether the entry lets the request pass
--   next         what to write: a value, false to delete the key; nil for nothing. Under 'g' a
--                charge is written only while `charging`
--   ahead        how long (us) the new value counts from now on
--   ahead_of_old the same of the old value, if there is one
--   old          v again

local max_count = 9007199254740991
local max_sliding = 4294967295
-- It is a check, and all entries so far have fitted.
local charging

-- How an algorithm's entries are looked at: how many numbers an entry has, the function, and
-- whether an id follows the numbers. Made when the first such entry comes.
local function define(op, kind)
  if kind == 'b' then
    --include: group_bucket.lua
  elseif kind == 'f' or kind == 'c' then
    --include: fixed_window.lua
  elseif kind == 'w' then
    --include: sliding_window.lua
  elseif kind == 'l' or kind == 'n' or (kind == 'm' and op == 'a') then
    --include: timed_list.lua
  end
end

-- The end of the calendar window that holds now, of the k windows whose edges begin at argv[a]; nil
-- when none does.
local function find_window(k, a)
  if now < argv[a] + 0 then return nil end
  for i = a + 1, a + k do
    local edge = argv[i] + 0
    if now < edge then return edge end
  end
end

-- Reads the arguments of an entry, which begin at argv[a]. Returns it and where the next begins.
local function read_entry(op, a, known)
  local kind = argv[a]
  local how = known[kind]
  if not how then
    local numbers, look, has_id = define(op, kind)
    if not numbers then return nil end
    how = {numbers, look, has_id}
    known[kind] = how
  end
  -- Named at once, for a table that grows is slow.
  local entry = {
    0, 0, 0,
    look = how[2], id = nil, fresh_end = nil, fits = nil,
    next = nil, ahead = nil, ahead_of_old = nil, old = nil
  }
  local numbers = how[1]
  for i = 1, numbers do entry[i] = argv[a + i] + 0 end
  a = a + numbers + 1
  if how[3] then
    entry.id = argv[a]
    a = a + 1
  elseif op == 'g' then
    if kind == 'f' then
      entry.fresh_end = now - now % entry[3] + entry[3]
    elseif kind == 'c' then
      entry.fresh_end = find_window(entry[3], a)
      a = a + entry[3] + 1
    end
  end
  return entry, a
end

-- Returns the server's error, if there was one.
local function put(key, value, ahead)
  local done
  if value then
    local px = (ahead + 1999) / 1000
    if px < least then px = least end
    done = call('SET', key, value, 'PX', format('%d', px))
  else
    done = call('DEL', key)
  end
  if type(done) == 'table' and done.err then return done end
end

-- Writes what an entry has to write. Returns the server's error, if there was one.
local function put_entry(entry, i)
  if entry.next ~= nil then return put(keys[i], entry.next, entry.ahead) end
end

-- Undoes the writes of entries n to 1. i: the number of the first one's key.
local function undo(entries, i, n)
  for j = n, 1, -1 do
    local entry = entries[j]
    if entry.next ~= nil then put(keys[i + j - 1], entry.old, entry.ahead_of_old) end
  end
end

local known = {g = {}, a = {}}

run_group = function(op, a, first, count)
  local n = argv[a] + 0
  if n < 1 then return nil end
  a = a + 1
  local asks, write = op == 'g', false
  if asks then
    write = argv[a] == '1'
    a = a + 1
  end
  local entries = {}
  for j = 1, n do
    entries[j], a = read_entry(op, a, known[op])
    if not a then return nil end
  end

  local last = first + count * n - 1
  for i = first, last, n do
    local before = size
    local all_fit, failed = 1, nil
    local written = 0  -- the entries up to here have been
    charging = write
    if asks then size = size + 1 end
    for j = 1, n do
      local entry = entries[j]
      local v = call('GET', keys[i + j - 1])
      if v and v.err then
        failed = v
        break
      end
      entry.old, entry.next = v, nil
      local w, x, y, z = entry.look(entry, v)
      if not w then
        failed = x
        break
      end
      reply[size + 1], reply[size + 2] = w, x
      size = size + 2
      if y then
        size = size + 1
        reply[size] = y
        if z then
          size = size + 1
          reply[size] = z
        end
      end
      if not asks then
        failed = put_entry(entry, i + j - 1)
        if failed then break end
        written = j
      elseif not entry.fits then
        all_fit, charging = 0, false
      end
    end
    if charging and not failed then
      for j = 1, n do
        failed = put_entry(entries[j], i + j - 1)
        if failed then break end
        written = j
      end
    end
    if failed then undo(entries, i, written) end
    if failed then
      for k = before + 2, size do reply[k] = nil end
      size = before + 1
      reply[size] = failed
    elseif asks then
      reply[before + 1] = all_fit
    end
  end
  return a, last
end
