-- The script that decides on the server: the second writing of core/token_bucket.h and core/step.h.
-- One script, put together from the files of this folder where a line says "--include:"; such a
-- file is a block of statements that sees the locals of the place where it stands.
--
-- KEYS     The keys of the requests, one request after another. A key may come twice and is then
--          decided twice, in order; but the keys of one 'g' of several entries all differ.
-- ARGV[1]  '' to use the server's clock; under test, "now" in microseconds.
-- ARGV[2]  and on: groups of consecutive requests that share their arguments. Requests of one token
--          bucket, one key each:
--            count 'c' inc bound            check: inc charges, bound is how far ahead it may get
--            count 'p' inc bound            peek: as check, writes nothing
--            count 'f' inc ticket reserved  refund; reserved is '1' for a reservation
--            count 'x'                      reset, of any algorithm
--          For a rule whose N is above 1 instants have a remainder in units of 1/N. The letter is
--          then a capital one and three more arguments follow: N, inc's and bound's (or ticket's)
--          remainder.
--          Requests of several entries, a key and an algorithm each (one entry will do):
--            count 'g' entries write {entry}*   All fit or none is charged. write: '1' for a
--                                               check, '0' for a peek. A cost (inc) of 0
--                                               only reads.
--              'b' n inc inc_r bound bound_r      token bucket
--              'f' cost limit period              fixed window
--              'c' cost limit k e0 e1 .. ek       calendar: the k windows [e0, e1), [e1, e2) ..
--              'w' cost limit period              sliding window
--              'l' cost limit period              sliding log
--              'n' cost limit ttl id              concurrency; id: 8 bytes, '' in a peek
--            count 'a' entries {entry}*         Adjusts charges, each entry for itself.
--              'b' n inc inc_r ticket ticket_r reserved up   gives inc back; up is '1': takes it
--              'f' delta end | 'c' delta end      end: of the window that was charged
--              'w' delta end period
--              'l' delta t period                 t: the instant of what was charged
--              'n' delta id
--              'm' ttl id                         renews a lease: its time begins anew
-- Reply    now, then for each request one of
--            check, peek  over = max(full_at, now) + inc - bound - now (its remainder follows when
--                         N > 1); a charge was made when it is at most 0
--            refund       1 or 0: given back or not; then full_at - now (and its remainder)
--            reset        0
--            'g'          1 when all fit, else 0; then each entry's state before any charge:
--              b            over and its remainder, as above
--              f c          end of the window under way, count
--              w            end of the window under way, count in the one before, count
--              l n          sum that counts now; instant at which the last of it is gone, 0 when
--                           there is nothing; instant at which the cost will fit, 0 when it
--                           does
--            'a'          for each entry 1 or 0, done or not; then its state after that:
--              b            full_at - now and remainder, 0 0 when full
--              f c w        as above, but 0 0 for f and c when no window is under way
--              l n m        sum, instant of the last, 0
--            an error     of this request alone; it has written nothing
--
-- Every number here is an integer below 2^53 and is written with %d: tostring() would round it.
-- Every write carries its expiry, or keeps the key's, that of a window that goes on; so no key is
-- ever without one. A refusal, a peek, and a change that changes nothing write nothing. Only reset
-- replaces a value of any other form.
--
-- Locals: a chunk may have 200, a function 60 from outside. Functions are made anew at every call
-- of the script (50 to 100 ns each), so those of groups are made only when the first group comes.

local call, find, format = redis.pcall, string.find, string.format
local keys, argv = KEYS, ARGV

-- Keys live until their state is as good as none, but not shorter than this (ms): long under test,
-- where real time must not race the given one.
local now, least = argv[1], 1
if now == '' then
  local t = redis.call('TIME')
  now = t[1] * 1000000 + t[2]
else
  now, least = now + 0, 3600000
end

--include: token_bucket.lua

local reply, size = {now}, 1
local first, a = 1, 2
local count = argv[2]
local run_group
while count do
  local op = argv[a + 1]
  local last = first + count - 1

  if op == 'c' or op == 'p' then
    --include: check.lua

  elseif op == 'C' or op == 'P' then
    --include: check_rational.lua

  elseif op == 'f' or op == 'F' then
    --include: refund.lua

  elseif op == 'x' then
    a = a + 2
    for i = first, last do
      local done = call('DEL', keys[i])
      if type(done) == 'number' then done = 0 end
      size = size + 1
      reply[size] = done
    end

  else
    if op == 'g' or op == 'a' then
      if not run_group then
        --include: group.lua
      end
      a, last = run_group(op, a + 2, first, count + 0)
    else
      a = nil
    end
    if not a then return {err = 'ERR saqiya: unknown operation'} end
  end

  first = last + 1
  count = argv[a]
end
return reply
