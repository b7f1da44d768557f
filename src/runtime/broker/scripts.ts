// The broker's operations that Redis must do in one step, as Lua. Each uses the server's clock, in milliseconds,
// so processes with wrong clocks cannot disagree. KEYS[1] is the set or counter.
// They fail only as any command does: when Redis is away, or the key is of another type.

const NOW = `
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)`;

/** ARGV: limit. Removes and returns due members, the earliest first. */
export const TAKE_DUE = `${NOW}
local due = redis.call('zrangebyscore', KEYS[1], '-inf', now, 'limit', 0, ARGV[1])
if #due > 0 then redis.call('zrem', KEYS[1], unpack(due)) end
return due`;

/** ARGV: window. Returns the count and what is left of the window. */
export const HIT = `
local count = redis.call('incr', KEYS[1])
if count == 1 then redis.call('pexpire', KEYS[1], ARGV[1]) end
local left = redis.call('pttl', KEYS[1])
if left < 0 then
  redis.call('pexpire', KEYS[1], ARGV[1])
  left = tonumber(ARGV[1])
end
return { count, left }`;

/**
 * KEYS: a mark of loans, then counters. ARGV: hits, further hits wanted, how long a loan is kept in mind, then window
 * and quota of each counter. A counter counts the hits that fit into it and all before it; hits are lent while there
 * are plenty; none is refused while the mark stands: those beyond a quota are left uncounted, to ask again.
 * Returns how long to wait, how many are lent, then for each counter that was reached count before, what is left of
 * the window, and its end.
 */
export const TAKE_HITS = `
local times, wanted = tonumber(ARGV[1]), tonumber(ARGV[2])
local found, fitting, room = {}, {}, math.huge
local fit = times
for i = 2, #KEYS do
  local quota = tonumber(ARGV[2 * i + 1])
  local before = tonumber(redis.call('get', KEYS[i]) or 0)
  fit = math.max(0, math.min(fit, quota - before))
  fitting[#fitting + 1] = fit
  found[#found + 1] = before
  room = math.min(room, quota - before - times)
  if fit == 0 then break end
end
local wait = 0
if fit < times then wait = math.max(0, redis.call('pttl', KEYS[1])) end
local lent = math.max(0, math.min(wanted, math.floor(room / 16)))
if lent > 0 then redis.call('set', KEYS[1], 1, 'px', ARGV[3]) end
local answer = { wait, lent }
for i, before in ipairs(found) do
  local counts = fitting[i]
  if wait > 0 then counts = fit end
  redis.call('incrby', KEYS[i + 1], counts + lent)
  local left = redis.call('pttl', KEYS[i + 1])
  if left < 0 then
    left = tonumber(ARGV[2 * i + 2])
    redis.call('pexpire', KEYS[i + 1], left)
  end
  answer[#answer + 1] = before
  answer[#answer + 1] = left
  answer[#answer + 1] = redis.call('pexpiretime', KEYS[i + 1])
end
return answer`;

/** KEYS: counters; ARGV: how many hits are given back, then the end of each window they were taken from. */
export const GIVE_BACK_HITS = `
for i, key in ipairs(KEYS) do
  if redis.call('pexpiretime', key) == tonumber(ARGV[i + 1]) then redis.call('decrby', key, ARGV[1]) end
end
return 1`;

/** ARGV: member, limit, ttl. Returns 1 when the member has a place. */
export const LEASE = `${NOW}
redis.call('zremrangebyscore', KEYS[1], '-inf', now)
if not redis.call('zscore', KEYS[1], ARGV[1]) and redis.call('zcard', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call('zadd', KEYS[1], now + ARGV[3], ARGV[1])
if redis.call('pttl', KEYS[1]) < tonumber(ARGV[3]) then redis.call('pexpire', KEYS[1], ARGV[3]) end
return 1`;

/** ARGV: ttl, members. */
export const RENEW = `${NOW}
for i = 2, #ARGV do redis.call('zadd', KEYS[1], now + ARGV[1], ARGV[i]) end
if redis.call('pttl', KEYS[1]) < tonumber(ARGV[1]) then redis.call('pexpire', KEYS[1], ARGV[1]) end
return 1`;

/** Returns how many places are taken. */
export const LEASE_COUNT = `${NOW}
return redis.call('zcount', KEYS[1], '(' .. now, '+inf')`;
