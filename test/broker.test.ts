// One contract, two brokers: Redis where the machine has a server, and the one in this process. Then what only Redis
// can do: vanish, freeze, come back empty.
import { afterAll, afterEach, describe, expect, test } from 'bun:test';

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
    if (Date.now() > end) throw new Error('it did not come true in time');
    await Bun.sleep(5);
  }
}

/** What a call gives as soon as the broker does not refuse it any more. */
async function onceBack<T>(call: () => Promise<T>, ms = 10_000): Promise<T> {
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
 * Tells a story anew under another key until what it gives holds. Loans last some 50 ms by the clocks of processes and
 * of Redis: where this machine holds one of them up for longer, a loan is counted as given back too early or too late.
 */
async function undisturbed(story: (key: string) => Promise<() => void>, rounds = 30): Promise<void> {
  for (let round = 1; ; round++) {
    const holds = await story(`told ${++keys}`);
    try {
      return holds();
    } catch (error) {
      if (round === rounds) throw error;
    }
  }
}

const brokers: [string, string | undefined][] = [['in this process', undefined]];
if (redis) brokers.push(['on Redis', redis.url]);

describe.each(brokers)('the broker %s', (_, url) => {
  test('tells subscribers what is published on their channel, until they leave', async () => {
    const one = broker(url);
    const heard: string[] = [];
    const leave = await one.subscribe('a', (message) => heard.push(`a ${message}`));
    await one.subscribe('a', () => {
      throw new Error('one bad handler keeps no other from hearing');
    });
    await one.subscribe('b', (message) => heard.push(`b ${message}`));
    await one.publish('a', '1');
    await one.publish('b', '2');
    await until(() => heard.length === 2);
    await leave();
    await one.publish('a', '3');
    await one.publish('b', '4');
    await until(() => heard.length === 3);
    expect(heard.sort()).toEqual(['a 1', 'b 2', 'b 4']);
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

  test('a reader gets nothing after its time, and an error when the broker closes', async () => {
    const one = broker(url);
    const startedAt = performance.now();
    expect(await one.read(new Map([['s', '0-0']]), 60, 10)).toEqual([]);
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(50);
    const reading = one.read(new Map([['s', '0-0']]), 60_000, 10).catch((error) => error);
    await Bun.sleep(20);
    await one.close();
    expect(await reading).toMatchObject({ status: 503 });
  });

  test('a reader who continues from the last id misses nothing', async () => {
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

  test('streams keep about the newest entries they are told to keep', async () => {
    const one = broker(url);
    for (let n = 0; n < 600; n++) await one.append('s', { n: String(n) }, 100);
    const kept = await one.read(new Map([['s', '0-0']]), 10, 1_000);
    expect(kept.length).toBeGreaterThanOrEqual(100);
    expect(kept.length).toBeLessThan(300);
    expect(kept.at(-1)?.fields.n).toBe('599');
  });

  test('schedules hand out what is due, the earliest first, each member once', async () => {
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

  test('of hits at once each is counted; one past a quota is not in the windows after it', async () => {
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

  test('leases are never more than their limit, and run out unless renewed', async () => {
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

  test('a closed broker refuses every call with 503', async () => {
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
  test('the databases of one server hear nothing of each other', async () => {
    const [here, there] = [broker(`${server.url}/0`, 'one:'), broker(`${server.url}/1`, 'one:')];
    const heard: string[] = [];
    await here.subscribe('news', (message) => heard.push(`here ${message}`));
    await there.subscribe('news', (message) => heard.push(`there ${message}`));
    await there.publish('news', 'first');
    await here.publish('news', 'second');
    await until(() => heard.includes('there first') && heard.includes('here second'));
    expect(heard).toHaveLength(2);
  });

  describe('with Redis gone', () => {
    test('two processes hear each other and share counters', async () => {
      const [one, two] = [broker(server.url, 'pair:'), broker(server.url, 'pair:')];
      const heard: string[] = [];
      await two.subscribe('a', (message) => heard.push(message));
      await one.publish('a', 'hello');
      await until(() => heard.length === 1);
      await one.count('k', 3_600_000);
      expect((await two.count('k', 3_600_000)).count).toBe(2);
    });

    test('an answer that came while this process was held up counts', async () => {
      const one = broker(server.url);
      await one.append('s', { n: '1' }, 10);
      const asked = [one.ping(), one.leaseCount('l'), one.read(new Map([['s', '0-0']]), 1, 10)];
      const endsAt = performance.now() + 3_000;
      while (performance.now() < endsAt);
      expect(await Promise.all(asked)).toMatchObject([undefined, 0, [{ fields: { n: '1' } }]]);
    });

    test('of hits from several processes at once exactly the quota fits, each with a count of its own', async () => {
      const several = [broker(server.url, 'pair:'), broker(server.url, 'pair:'), broker(server.url, 'pair:')];
      const ofItsOwn = Array.from({ length: 60 }, (_, i) => i + 1);
      await undisturbed(async (key) => {
        const windows = [{ key, windowMs: 3_600_000, quota: 60 }];
        const counts: number[] = [];
        for (let round = 0; round < 10; round++) {
          const asked = several.flatMap((one) => Array.from({ length: 7 }, () => one.countAll(windows)));
          for (const [hit] of await Promise.all(asked)) counts.push(hit?.count ?? 0);
        }
        const fitting = counts.filter((count) => count <= 60).sort((a, b) => a - b);
        expect(fitting).toHaveLength(60);
        return () => expect(fitting).toEqual(ofItsOwn);
      });
    });

    test('what one process borrowed of a quota and does not use, others can use', async () => {
      const [one, two] = [broker(server.url, 'pair:'), broker(server.url, 'pair:')];
      await undisturbed(async (key) => {
        const windows = [{ key, windowMs: 3_600_000, quota: 200 }];
        // Hits in quick succession make the first process borrow some in advance.
        for (let i = 0; i < 5; i++) await one.countAll(windows);
        const hits = await Promise.all(Array.from({ length: 300 }, () => two.countAll(windows)));
        const fitting = hits.filter(([hit]) => (hit?.count ?? 201) <= 200);
        expect(fitting.length).toBeLessThanOrEqual(195);
        const after = (await one.countAll(windows))[0]?.count;
        return () => expect([fitting.length, after]).toEqual([195, 201]);
      });
    });

    test('what was borrowed of a window that is over is not given back to the next', async () => {
      const [one, two] = [broker(server.url, 'pair:'), broker(server.url, 'pair:')];
      const windows = [{ key: 'short', windowMs: 30, quota: 1_000 }];
      for (let i = 0; i < 5; i++) await one.countAll(windows);
      await Bun.sleep(35);
      const next = [{ key: 'short', windowMs: 3_600_000, quota: 1_000 }];
      expect((await two.countAll(next))[0]?.count).toBe(1);
      await Bun.sleep(60);
      expect((await two.countAll(next))[0]?.count).toBe(2);
    });

    test('every call settles with 503 while it is away; on its return all works and subscribers are told', async () => {
      const one = broker(server.url);
      const heard: string[] = [];
      let resets = 0;
      await one.subscribe('a', (message) => heard.push(message));
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
      // Each of its connections comes back by itself.
      await onceBack(() => one.publish('a', 'back'));
      await until(() => heard.includes('back'));
      await one.append('s', { n: '1' }, 10);
      expect(await onceBack(() => one.read(new Map([['s', '0-0']]), 60_000, 10))).toHaveLength(1);
    });

    test('a Redis that hangs is answered with 503 within 5 s, and used again when it wakes, with subscribers told', async () => {
      const one = broker(server.url);
      await one.ping();
      let resets = 0;
      await one.subscribe('a', () => {});
      one.onReset(() => resets++);
      server.freeze();
      const hung = one.ping().catch((error) => error);
      expect(await within(5_000, hung)).toMatchObject({ status: 503 });
      await until(() => !one.connected());
      server.thaw();
      await onceBack(() => one.ping());
      await until(() => one.connected() && resets > 0);
    });
  });
}
