// The broker contract on both implementations, Redis (where a server is installed) and memory; then crashes and
// hangs of Redis.
import { afterAll, afterEach, describe, expect, test } from 'bun:test';
import { Redis } from 'ioredis';

import type { Broker } from '../src/runtime/broker/broker.ts';
import { MemoryBroker } from '../src/runtime/broker/memory.ts';
import { RedisBroker } from '../src/runtime/broker/redis.ts';
import { createLog } from '../src/runtime/log.ts';
import { type PrivateRedis, privateRedis } from './support/private-servers.ts';
import { retryWhenDelayed, within } from './support/timing.ts';

const log = createLog({ level: 'error', write: () => {} });
const redis: PrivateRedis | undefined = await privateRedis();
const open: Broker[] = [];
let prefixes = 0;
let keys = 0;

afterEach(async () => {
  await Promise.all(open.splice(0).map((broker) => broker.close()));
});
afterAll(async () => {
  await redis?.remove();
});

function broker(url: string | undefined, prefix = `t${++prefixes}:`): Broker {
  const opened = url === undefined ? new MemoryBroker(log) : new RedisBroker(url, prefix, log);
  open.push(opened);
  return opened;
}

async function until(isTrue: () => boolean, ms = 30_000): Promise<void> {
  const end = Date.now() + ms;
  while (!isTrue()) {
    if (Date.now() > end) throw new Error('the condition was not met in time');
    await Bun.sleep(5);
  }
}

/** The result of a call, retried while the broker rejects with 503. */
async function retryWhileDown<T>(call: () => Promise<T>, ms = 10_000): Promise<T> {
  const end = Date.now() + ms;
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if ((error as { status?: number }).status !== 503 || Date.now() > end) throw error;
      await Bun.sleep(20);
    }
  }
}

/**
 * Runs a scenario under new keys until its check passes. Prefetched hits live for 50 ms by the clocks of the process and
 * of Redis: a longer stall of either on this machine makes them count as returned too early or too late.
 */
async function retryOnStalls(scenario: (key: string) => Promise<() => void>, rounds = 30): Promise<void> {
  for (let round = 1; ; round++) {
    const check = await scenario(`scenario ${++keys}`);
    try {
      return check();
    } catch (error) {
      if (round === rounds) throw error;
    }
  }
}

const brokers: [string, string | undefined][] = [['in this process', undefined]];
if (redis) brokers.push(['on Redis', redis.url]);

describe.each(brokers)('the broker %s', (_, url) => {
  test('delivers messages to the subscribers of their channel until they unsubscribe', async () => {
    const one = broker(url);
    const received: string[] = [];
    const unsubscribe = await one.subscribe('a', (message) => received.push(`a ${message}`));
    await one.subscribe('a', () => {
      throw new Error('a failing handler does not affect the others');
    });
    await one.subscribe('b', (message) => received.push(`b ${message}`));
    await one.publish('a', '1');
    await one.publish('b', '2');
    await until(() => received.length === 2);
    await unsubscribe();
    await one.publish('a', '3');
    await one.publish('b', '4');
    await until(() => received.length === 3);
    expect(received.sort()).toEqual(['a 1', 'b 2', 'b 4']);
    expect(one.connected()).toBe(true);
  });

  test('reads entries after an id, from several streams, as soon as there are any', async () => {
    const one = broker(url);
    expect(await one.lastId('s')).toBe('0-0');
    const first = await one.append('s', { n: '1', text: 'ä\n' }, 100);
    expect(await one.lastId('s')).toBe(first);
    const reading = one.read(
      new Map([
        ['s', first],
        ['t', '0-0'],
      ]),
      60_000,
      10,
    );
    const second = await one.append('s', { n: '2' }, 100);
    expect(await reading).toEqual([{ stream: 's', id: second, fields: { n: '2' } }]);
    await one.append('t', { n: '3' }, 100);
    const all = await one.read(
      new Map([
        ['s', '0-0'],
        ['t', '0-0'],
      ]),
      60_000,
      10,
    );
    expect(all.map(({ stream, fields }) => `${stream}${fields.n}`)).toEqual(['s1', 's2', 't3']);
    expect(all[0]?.fields).toEqual({ n: '1', text: 'ä\n' });
    expect(await one.read(new Map([['s', '0-0']]), 60_000, 1)).toHaveLength(1);
  });

  test('appends entries that each name the one before, all at once', async () => {
    const one = broker(url);
    const first = await one.append('chain', { n: 'a' }, 100);
    const last = await one.appendChain('chain', 'n', ['b', 'ä\n', 'd'], first, 100);
    const entries = await one.read(new Map([['chain', first]]), 60_000, 10);
    expect(entries.map(({ fields }) => fields.n)).toEqual(['b', 'ä\n', 'd']);
    expect(entries.map(({ fields }) => fields.after)).toEqual([
      first,
      entries[0]?.id as string,
      entries[1]?.id as string,
    ]);
    expect([entries.at(-1)?.id, await one.lastId('chain')]).toEqual([last, last]);
    expect(await one.appendChain('chain', 'n', ['e', 'f'], last, 1)).toBe(await one.lastId('chain'));
  });

  test('a read ends empty at its timeout, and with an error when the broker closes', async () => {
    const one = broker(url);
    const startedAt = performance.now();
    expect(await one.read(new Map([['s', '0-0']]), 60, 10)).toEqual([]);
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(50);
    const reading = one.read(new Map([['s', '0-0']]), 60_000, 10).catch((error) => error);
    await Bun.sleep(20);
    await one.close();
    expect(await reading).toMatchObject({ status: 503 });
  });

  test('a reader that continues from the last id misses nothing', async () => {
    const one = broker(url);
    const seen: string[] = [];
    let last = await one.lastId('s');
    const reader = (async () => {
      while (seen.length < 300) {
        for (const entry of await one.read(new Map([['s', last]]), 1_000, 50)) {
          seen.push(entry.fields.n ?? '');
          last = entry.id;
        }
      }
    })();
    for (let n = 0; n < 300; n++) await one.append('s', { n: String(n) }, 1_000);
    await reader;
    expect(seen).toEqual(Array.from({ length: 300 }, (_, n) => String(n)));
  });

  test('streams keep about the given number of newest entries', async () => {
    const one = broker(url);
    for (let n = 0; n < 600; n++) await one.append('s', { n: String(n) }, 100);
    const kept = await one.read(new Map([['s', '0-0']]), 10, 1_000);
    expect(kept.length).toBeGreaterThanOrEqual(100);
    expect(kept.length).toBeLessThan(300);
    expect(kept.at(-1)?.fields.n).toBe('599');
  });

  test('schedules return due members, the earliest first, each once', async () => {
    const one = broker(url);
    const now = Date.now();
    await one.schedule('q', 'late', now + 3_600_000);
    await one.schedule('q', 'second', now - 10);
    await one.schedule('q', 'first', now - 20);
    await one.schedule('q', 'moved', now - 30);
    await one.schedule('q', 'moved', now - 5);
    await one.schedule('q', 'gone', now - 40);
    await one.unschedule('q', 'gone');
    expect(await one.takeDue('q', 2)).toEqual(['first', 'second']);
    const rest = await Promise.all([one.takeDue('q', 10), one.takeDue('q', 10)]);
    expect(rest.flat()).toEqual(['moved']);
  });

  test('hits are counted in fixed windows that start with their first hit', async () => {
    const { one, ms } = await retryWhenDelayed(
      600,
      async (ms) => {
        const one = broker(url);
        const hits = await Promise.all(Array.from({ length: 5 }, () => one.count('k', ms)));
        expect(hits.map(({ count }) => count).sort()).toEqual([1, 2, 3, 4, 5]);
        for (const { resetMs } of hits) expect(resetMs).toBeWithin(1, ms + 1);
        expect((await one.count('other', ms)).count).toBe(1);
        return { one, ms };
      },
      4,
    );
    await Bun.sleep(ms + 30);
    expect((await one.count('k', ms)).count).toBe(1);
  });

  test('concurrent hits are all counted; one past a quota is not counted in later windows', async () => {
    const ask = (one: Broker, times: number, windowMs: number, quota = 5) => {
      const minute = { key: 'minute', windowMs, quota };
      const day = { key: 'day', windowMs: 3_600_000, quota: 70 };
      const counts = async () => (await one.countAll([minute, day])).map(({ count }) => count);
      return Promise.all(Array.from({ length: times }, counts));
    };
    const { one, ms } = await retryWhenDelayed(
      700,
      async (ms) => {
        const one = broker(url);
        const [begun, ...rest] = [await ask(one, 2, ms), await ask(one, 4, ms), await ask(one, 3, ms)];
        expect(begun).toEqual([
          [1, 1],
          [2, 2],
        ]);
        expect(rest[0]).toEqual([[3, 3], [4, 4], [5, 5], [6]]);
        for (const counts of rest[1] ?? []) {
          expect(counts).toHaveLength(1);
          expect(counts[0]).toBeGreaterThan(5);
        }
        const raised = await ask(one, 1, ms, 100);
        expect(raised[0]?.[0]).toBeGreaterThan(5);
        expect(raised[0]?.[1]).toBe(6);
        return { one, ms };
      },
      4,
    );
    await Bun.sleep(ms + 30);
    expect(await ask(one, 3, ms)).toEqual([
      [1, 7],
      [2, 8],
      [3, 9],
    ]);
  });

  test('leases never exceed their limit, and expire unless renewed', async () => {
    const { one, ms } = await retryWhenDelayed(
      600,
      async (ms) => {
        const one = broker(url);
        const tries = await Promise.all(Array.from({ length: 20 }, (_, i) => one.lease('l', `m${i}`, 7, ms)));
        expect(tries.filter((taken) => taken)).toHaveLength(7);
        expect(await one.leaseCount('l')).toBe(7);
        const mine = tries.indexOf(true);
        expect(await one.lease('l', `m${mine}`, 7, ms)).toBe(true);
        await one.release('l', `m${mine}`);
        expect(await one.lease('l', 'late', 7, ms)).toBe(true);
        return { one, ms };
      },
      4,
    );
    await one.renew('l', ['late'], 3_600_000);
    await Bun.sleep(ms + 30);
    expect(await one.leaseCount('l')).toBe(1);
  });

  test('a full set makes room at the oldest lease of the share with the most, for a share that has fewer', async () => {
    const one = broker(url);
    for (const member of ['a:2', 'a:1', 'a:3', 'b:1']) await one.lease('shared', member, 4, 60_000);
    expect(await one.makeRoom('shared', 'c', 5, 0)).toBeNull();
    expect(await one.makeRoom('shared', 'a', 4, 0)).toBeNull();
    expect(await one.makeRoom('shared', 'c', 4, 3)).toBeNull();
    expect(await one.makeRoom('shared', 'c', 4, 2)).toBe('a:1');
    expect(await one.lease('shared', 'c:1', 4, 60_000)).toBe(true);
    expect(await one.makeRoom('shared', 'b', 4, 0)).toBeNull();
    expect(await one.makeRoom('shared', 'd', 4, 0)).toBe('a:2');
    // If ten shares kept everything they have, an eleventh would get nothing.
    const members = [...'abcdefghij'].flatMap((share) => [1, 2, 3].map((at) => `${share}:${at}`));
    for (const member of members) await one.lease('crowded', member, 30, 60_000);
    expect(await one.makeRoom('crowded', 'k', 30, 4)).toBeNull();
    expect(await one.makeRoom('crowded', 'k', 30, 3)).toMatch(/^[a-j]:1$/);
    expect(await one.leaseCount('shared')).toBe(3);
  });

  test('a closed broker rejects every call with 503', async () => {
    const one = broker(url);
    await one.ping();
    await one.close();
    const calls = [
      one.ping(),
      one.publish('a', '1'),
      one.append('s', {}, 1),
      one.count('k', 1),
      one.subscribe('a', () => {}),
    ];
    for (const { status } of await Promise.all(
      calls.map((call) =>
        call.then(
          () => ({ status: 200 }),
          (e) => e,
        ),
      ),
    )) {
      expect(status).toBe(503);
    }
  });
});

if (redis) describeRedis(redis);

function describeRedis(server: PrivateRedis): void {
  test('the databases of one server do not share channels', async () => {
    const [here, there] = [broker(`${server.url}/0`, 'one:'), broker(`${server.url}/1`, 'one:')];
    const received: string[] = [];
    await here.subscribe('news', (message) => received.push(`here ${message}`));
    await there.subscribe('news', (message) => received.push(`there ${message}`));
    await there.publish('news', 'first');
    await here.publish('news', 'second');
    await until(() => received.includes('there first') && received.includes('here second'));
    expect(received).toHaveLength(2);
  });

  describe('on Redis only', () => {
    test('two processes share channels and counters', async () => {
      const [one, two] = [broker(server.url, 'pair:'), broker(server.url, 'pair:')];
      const received: string[] = [];
      await two.subscribe('a', (message) => received.push(message));
      await one.publish('a', 'hello');
      await until(() => received.length === 1);
      await one.count('k', 3_600_000);
      expect((await two.count('k', 3_600_000)).count).toBe(2);
    });

    test('a server that is full, or has become a replica, makes calls fail with 503 until it accepts them again', async () => {
      const one = broker(server.url);
      const client = new Redis(server.url);
      await one.count('k', 3_600_000);
      for (const [refuse, accept] of [
        [() => client.config('SET', 'maxmemory', '1'), () => client.config('SET', 'maxmemory', '0')],
        [() => client.replicaof('127.0.0.1', 1), () => client.replicaof('NO', 'ONE')],
      ] as const) {
        await refuse();
        const calls = [
          one.append('s', { n: '1' }, 1),
          one.count('k', 3_600_000),
          one.read(new Map([['s', '0-0']]), 1, 10),
        ];
        const outcomes = await Promise.allSettled(calls);
        const statuses = outcomes.map((outcome) => (outcome.status === 'rejected' ? outcome.reason.status : 200));
        await accept();
        expect([statuses[0], statuses[1]]).toEqual([503, 503]);
        expect([200, 503]).toContain(statuses[2]);
        await retryWhileDown(() => one.append('s', { n: '1' }, 1));
      }
      client.disconnect();
    });

    test('a reply that arrived while the event loop was stalled is read', async () => {
      const one = broker(server.url);
      await one.append('s', { n: '1' }, 10);
      const asked = [one.ping(), one.leaseCount('l'), one.read(new Map([['s', '0-0']]), 1, 10)];
      const endsAt = performance.now() + 3_000;
      while (performance.now() < endsAt);
      expect(await Promise.all(asked)).toMatchObject([undefined, 0, [{ fields: { n: '1' } }]]);
    });

    test('exactly the quota of concurrent hits from several processes is admitted, each with its own count', async () => {
      const several = [broker(server.url, 'pair:'), broker(server.url, 'pair:'), broker(server.url, 'pair:')];
      const distinct = Array.from({ length: 60 }, (_, i) => i + 1);
      await retryOnStalls(async (key) => {
        const windows = [{ key, windowMs: 3_600_000, quota: 60 }];
        const counts: number[] = [];
        for (let round = 0; round < 10; round++) {
          const asked = several.flatMap((one) => Array.from({ length: 7 }, () => one.countAll(windows)));
          for (const [hit] of await Promise.all(asked)) counts.push(hit?.count ?? 0);
        }
        const fitting = counts.filter((count) => count <= 60).sort((a, b) => a - b);
        expect(fitting).toHaveLength(60);
        return () => expect(fitting).toEqual(distinct);
      });
    });

    test('hits that one process prefetched and does not use are available to others', async () => {
      const [one, two] = [broker(server.url, 'pair:'), broker(server.url, 'pair:')];
      await retryOnStalls(async (key) => {
        const windows = [{ key, windowMs: 3_600_000, quota: 200 }];
        // A steady rate makes the first process prefetch.
        for (let i = 0; i < 5; i++) await one.countAll(windows);
        const hits = await Promise.all(Array.from({ length: 300 }, () => two.countAll(windows)));
        const fitting = hits.filter(([hit]) => (hit?.count ?? 201) <= 200);
        expect(fitting.length).toBeLessThanOrEqual(195);
        const after = (await one.countAll(windows))[0]?.count;
        return () => expect([fitting.length, after]).toEqual([195, 201]);
      });
    });

    test('hits prefetched in a window that has ended are not returned to the next', async () => {
      const [one, two] = [broker(server.url, 'pair:'), broker(server.url, 'pair:')];
      const windows = [{ key: 'short', windowMs: 30, quota: 1_000 }];
      for (let i = 0; i < 5; i++) await one.countAll(windows);
      await Bun.sleep(35);
      const next = [{ key: 'short', windowMs: 3_600_000, quota: 1_000 }];
      expect((await two.countAll(next))[0]?.count).toBe(1);
      await Bun.sleep(60);
      expect((await two.countAll(next))[0]?.count).toBe(2);
    });

    test('while Redis is down every call fails with 503; after its return all work and subscribers are notified', async () => {
      const one = broker(server.url);
      const received: string[] = [];
      let resets = 0;
      await one.subscribe('a', (message) => received.push(message));
      await one.ping();
      one.onReset(() => resets++);
      const reading = one.read(new Map([['s', '0-0']]), 60_000, 10).catch((error) => error);
      const busy = Array.from({ length: 200 }, (_, i) =>
        one.append('s2', { i: String(i) }, 10).catch((error) => error),
      );
      await server.kill();
      expect(await reading).toMatchObject({ status: 503 });
      await Promise.all(busy);
      const calls = [one.ping(), one.count('k', 1_000), one.publish('a', 'lost'), one.lease('l', 'm', 1, 1_000)];
      const errors = await within(5_000, Promise.all(calls.map((call) => call.catch((thrown) => thrown))));
      expect(errors).toEqual(Array(4).fill(expect.objectContaining({ status: 503 })));
      await until(() => !one.connected());
      await server.start();
      await until(() => one.connected() && resets > 0);
      // Each connection recovers on its own.
      await retryWhileDown(() => one.publish('a', 'back'));
      await until(() => received.includes('back'));
      await one.append('s', { n: '1' }, 10);
      expect(await retryWhileDown(() => one.read(new Map([['s', '0-0']]), 60_000, 10))).toHaveLength(1);
    });

    test('while Redis hangs, calls fail with 503 within 5 s; after it wakes they work, and subscribers get the published messages or are notified', async () => {
      const one = broker(server.url);
      await one.ping();
      let resets = 0;
      let received = 0;
      await one.subscribe('a', () => received++);
      one.onReset(() => resets++);
      server.freeze();
      const hung = one.ping().catch((error) => error);
      const published = one.publish('a', 'x').catch((error) => error);
      expect(await within(5_000, Promise.all([hung, published]))).toMatchObject([{ status: 503 }, { status: 503 }]);
      await until(() => !one.connected());
      server.thaw();
      await retryWhileDown(() => one.ping());
      await until(() => one.connected() && resets + received > 0);
    });
  });
}
