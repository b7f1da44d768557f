// The broker's atomic operations on Redis, in Lua. They use the server's clock, in milliseconds, so processes
// with wrong clocks cannot disagree. KEYS[1] is the set or counter unless stated otherwise.
// They fail like any command: when Redis is unavailable or the key has another type.

const NOW = `
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)`;

/** ARGV: limit. Removes and returns due members, the earliest first. */
export const TAKE_DUE = `${NOW}
local due = redis.call('zrangebyscore', KEYS[1], '-inf', now, 'limit', 0, ARGV[1])
if #due > 0 then redis.call('zrem', KEYS[1], unpack(due)) end
return due`;

/** KEYS[1] is a stream. ARGV: the entry before, entries to keep, lifetime, field, texts. Returns the last entry's id. */
export const APPEND_CHAIN = `
local id = ARGV[1]
for i = 5, #ARGV do
  id = redis.call('xadd', KEYS[1], 'maxlen', '~', ARGV[2], '*', ARGV[4], ARGV[i], 'after', id)
end
redis.call('pexpire', KEYS[1], ARGV[3])
return id`;

/** ARGV: window. Returns the count and the time left in the window. */
export const COUNT = `
local count = redis.call('incr', KEYS[1])
if count == 1 then redis.call('pexpire', KEYS[1], ARGV[1]) end
local left = redis.call('pttl', KEYS[1])
if left < 0 then
  redis.call('pexpire', KEYS[1], ARGV[1])
  left = tonumber(ARGV[1])
end
return { count, left }`;

/**
 * ARGV: hits, quota, window. Returns 1 when the hits were counted, the count before, the time left in the window, and the
 * window's end.
 */
export const TAKE = `
local before = tonumber(redis.call('get', KEYS[1]) or 0)
local left = redis.call('pttl', KEYS[1])
local isNew = left < 0
if isNew then left = tonumber(ARGV[3]) end
if before + tonumber(ARGV[1]) > tonumber(ARGV[2]) then return { 0, before, left, 0 } end
if tonumber(ARGV[1]) == 0 then return { 1, before, left, 0 } end
redis.call('incrby', KEYS[1], ARGV[1])
if isNew then redis.call('pexpire', KEYS[1], left) end
return { 1, before, left, redis.call('pexpiretime', KEYS[1]) }`;

/**
 * KEYS: a marker of outstanding prefetches, then the counters. ARGV: hits, hits to prefetch, lifetime of the marker,
 * then window and quota of each counter. Counters are tried in order: each counts the hits that fit into its own quota
 * and those of the counters before it; the first that is full ends the loop. More hits are prefetched while all quotas
 * are far from exhausted. While the marker exists, hits beyond a quota are not counted by any counter.
 * Returns how long to wait before counting the hits beyond a quota, the number prefetched, and then for each counter
 * tried: its previous count, the time left in its window, and the window's end.
 */
export const COUNT_ALL = `
local hits, wanted = tonumber(ARGV[1]), tonumber(ARGV[2])
local found, fitting, room = {}, {}, math.huge
local fit = hits
for i = 2, #KEYS do
  local quota = tonumber(ARGV[2 * i + 1])
  local before = tonumber(redis.call('get', KEYS[i]) or 0)
  fit = math.max(0, math.min(fit, quota - before))
  fitting[#fitting + 1] = fit
  found[#found + 1] = before
  room = math.min(room, quota - before - hits)
  if fit == 0 then break end
end
local wait = 0
if fit < hits then wait = math.max(0, redis.call('pttl', KEYS[1])) end
local prefetched = math.max(0, math.min(wanted, math.floor(room / 16)))
if prefetched > 0 then redis.call('set', KEYS[1], 1, 'px', ARGV[3]) end
local answer = { wait, prefetched }
for i, before in ipairs(found) do
  local counts = fitting[i]
  if wait > 0 then counts = fit end
  redis.call('incrby', KEYS[i + 1], counts + prefetched)
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

/** KEYS: counters; ARGV: hits to return, then the end of each window they were counted in. */
export const RETURN_HITS = `
for i, key in ipairs(KEYS) do
  if redis.call('pexpiretime', key) == tonumber(ARGV[i + 1]) then redis.call('decrby', key, ARGV[1]) end
end
return 1`;

/** ARGV: member, limit, ttl. Returns 1 when the member holds a lease. */
export const LEASE = `${NOW}
redis.call('zremrangebyscore', KEYS[1], '-inf', now)
if not redis.call('zscore', KEYS[1], ARGV[1]) and redis.call('zcard', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call('zadd', KEYS[1], now + ARGV[3], ARGV[1])
if redis.call('pttl', KEYS[1]) < tonumber(ARGV[3]) then redis.call('pexpire', KEYS[1], ARGV[3]) end
return 1`;

/**
 * ARGV: share, limit, leases that a share keeps. Removes the oldest lease of the share with the most leases, and returns it. Returns
 * nothing when the set is not full, or when that share has no more than it keeps, or no more than the given share would have with
 * one more. With many shares, each keeps fewer, so that a share without a lease finds a place. A low limit set by the operator is exact.
 */
export const MAKE_ROOM = `
local members = redis.call('zrange', KEYS[1], 0, -1)
if #members < tonumber(ARGV[2]) then return false end
local limit, keeps = tonumber(ARGV[2]), tonumber(ARGV[3])
local counts, oldest, most, shares = {}, {}, nil, 0
for _, member in ipairs(members) do
  local share = member:sub(1, (member:find(':', 1, true) or 1) - 1)
  if not counts[share] then shares = shares + 1 end
  counts[share] = (counts[share] or 0) + 1
  if not oldest[share] or member < oldest[share] then oldest[share] = member end
  if not most or counts[share] > counts[most] then most = share end
end
if limit >= 10 * keeps then keeps = math.min(keeps, math.floor(limit / (shares + 1))) end
if counts[most] <= math.max(keeps, (counts[ARGV[1]] or 0) + 1) then return false end
redis.call('zrem', KEYS[1], oldest[most])
return oldest[most]`;

/** ARGV: ttl, members. */
export const RENEW = `${NOW}
for i = 2, #ARGV do redis.call('zadd', KEYS[1], now + ARGV[1], ARGV[i]) end
if redis.call('pttl', KEYS[1]) < tonumber(ARGV[1]) then redis.call('pexpire', KEYS[1], ARGV[1]) end
return 1`;

/** Returns the number of leases. */
export const LEASE_COUNT = `${NOW}
return redis.call('zcount', KEYS[1], '(' .. now, '+inf')`;
