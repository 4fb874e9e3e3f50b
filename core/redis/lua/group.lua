-- 'g' and 'a': requests of several entries. What both need, and ask.lua and adjust.lua.
--
-- An entry's algorithm is in a function of its own, but for those that ask.lua looks at itself.
-- Such an entry is a table, shared by the requests of its group:
--   [1], [2] ..  its numbers, in the order of the protocol; id: its lease's id, if it has one
--   look         function(entry, v), of its algorithm; v: the stored value, or false. Returns the
--                entry's part of the reply, or nil and an error. It sets
--   fits         'g': whether the entry lets the request pass
--   next         what to write: a value, false to delete the key; nil for nothing. Under 'g' a
--                charge is written only while `charging`
--   ahead        how long (us) the new value counts from now on
--   ahead_of_old the same of the old value, if there is one
--   old          'a': v again

local match = string.match
local max_count = 9007199254740991
local max_sliding = 4294967295
local foreign_window = 'SAQIYACORRUPT the value is not a fixed window'
-- 'g': it is a check, and all entries so far have fitted.
local charging

-- How an algorithm's entries are looked at: how many numbers an entry has, the function, and
-- whether an id follows the numbers. Made when the first such entry comes.
local function define(op, kind)
  if kind == 'w' then
    --include: sliding_window.lua
  elseif kind == 'l' or kind == 'n' or (kind == 'm' and op == 'a') then
    --include: timed_list.lua
  elseif op == 'a' then
    if kind == 'b' then
      --include: adjust_bucket.lua
    elseif kind == 'f' or kind == 'c' then
      --include: adjust_window.lua
    end
  end
end

local known = {g = {}, a = {}}

-- Reads the arguments of an entry, which begin at argv[a]. Returns it and where the next begins.
local function read_entry(op, a)
  local kind = argv[a]
  local how = known[op][kind]
  if not how then
    local numbers, look, has_id = define(op, kind)
    if not numbers then return nil end
    how = {numbers, look, has_id}
    known[op][kind] = how
  end
  -- Named at once, for a table that grows is slow.
  local entry = {
    0, 0, 0,
    look = how[2], id = nil, fits = nil,
    next = nil, ahead = nil, ahead_of_old = nil, old = nil
  }
  local numbers = how[1]
  for i = 1, numbers do entry[i] = argv[a + i] + 0 end
  a = a + numbers + 1
  if how[3] then
    entry.id = argv[a]
    a = a + 1
  end
  return entry, a
end

-- The values that were put, by key; false for a key that was deleted.
local latest = {}

-- Stores a value that counts for `ahead` from now on. value false: deletes the key. Returns the
-- server's error, if there was one.
local function put(key, value, ahead)
  local done
  if not value then
    done = call('DEL', key)
    if type(done) == 'number' then done = {} end
  else
    local px = (ahead + 1999) / 1000
    if px < least then px = least end
    done = call('SET', key, value, 'PX', format('%d', px))
  end
  if done.err then return done end
  latest[key] = value
end

local run_asks, run_changes
--include: ask.lua
--include: adjust.lua

run_group = function(op, a, first, count)
  local last
  if op == 'g' then
    a, last, size = run_asks(a, first, count)
  else
    a, last = run_changes(a, first, count)
  end
  return a, last
end
