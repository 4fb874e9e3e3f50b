-- The classic token bucket, as articles show it and applications copy it: a hash of two floats,
-- the client's clock, an hour to live, a write on every request. What saqiya is measured against.
-- KEYS[1] bucket; ARGV capacity, tokens per second, now in seconds, tokens wanted
local capacity = tonumber(ARGV[1])
local rate = tonumber(ARGV[2])
local now = tonumber(ARGV[3])
local wanted = tonumber(ARGV[4])

local bucket = redis.call('HMGET', KEYS[1], 'tokens', 'ts')
local tokens = tonumber(bucket[1]) or capacity
local last = tonumber(bucket[2]) or now

tokens = math.min(capacity, tokens + math.max(0, now - last) * rate)
local allowed = tokens >= wanted
if allowed then
  tokens = tokens - wanted
end

redis.call('HMSET', KEYS[1], 'tokens', tokens, 'ts', now)
redis.call('EXPIRE', KEYS[1], 3600)
return { allowed and 1 or 0, tokens }
