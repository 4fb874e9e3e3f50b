-- 'a': requests that adjust charges. One entry after another is read and written, for they may be
-- of one key. When something fails, the writes before it are undone, the newest first: the old
-- values are put back.
--
-- Defines run_changes(a, first, count), which does as run_asks in ask.lua.

-- Undoes the writes of entries n to 1. i: the number of the first one's key.
local function undo(entries, i, n)
  for j = n, 1, -1 do
    local entry = entries[j]
    if entry.next ~= nil then put(keys[i + j - 1], entry.old, entry.ahead_of_old) end
  end
end

run_changes = function(a, first, count)
  local n = argv[a] + 0
  if n < 1 then return nil end
  a = a + 1
  local entries = {}
  for j = 1, n do
    entries[j], a = read_entry('a', a)
    if not a then return nil end
  end

  local last = first + count * n - 1
  for i = first, last, n do
    local before = size
    for j = 1, n do
      local entry, key = entries[j], keys[i + j - 1]
      local v = call('GET', key)
      local w, x, y, z, failed
      if v and v.err then
        failed = v
      else
        entry.old, entry.next = v, nil
        w, x, y, z = entry.look(entry, v)
        if not w then
          failed = x
        elseif entry.next ~= nil then
          failed = put(key, entry.next, entry.ahead)
        end
      end
      if failed then
        undo(entries, i, j - 1)
        for k = before + 2, size do reply[k] = nil end
        size = before + 1
        reply[size] = failed
        break
      end
      reply[size + 1], reply[size + 2], reply[size + 3] = w, x, y
      size = size + 3
      if z then
        size = size + 1
        reply[size] = z
      end
    end
  end
  return a, last
end
