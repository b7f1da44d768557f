// The queue of rule runs in the database. Claims set aside the runs that an earlier run of the same record blocks, and no race
// between claims, ends and new runs loses, delays or reorders a run. On embedded Postgres, which has one connection, racing
// statements take turns.
// Contract: decisions#rules.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import process from 'node:process';
import type { RuleRun } from '../src/rules/actions.ts';
import { claimRun, countRuns, retryLater, takeRun } from '../src/rules/runs.ts';
import { newId } from '../src/runtime/ids.ts';
import { type Queries, sql } from '../src/runtime/sql.ts';
import { startService, type TestService } from './support/service.ts';

let service: TestService;
/** A tenant of which only rule runs exist, so that no worker knows it. */
let tenantId: string;
let record: [string, string, string];

beforeAll(async () => {
  service = await startService();
});
afterAll(async () => service?.stop());
beforeEach(() => {
  tenantId = newId();
  record = [newId(), newId(), newId()];
});

const isEmbedded = process.env.DATABASE_URL === undefined;

async function queue(recordId: string, n: number): Promise<void> {
  await service.app.db.rows(sql`
    insert into platform.rule_runs (event_id, rule_id, tenant_id, entity_id, record_id, version, created_at, updated_at,
      depth, root_event_id)
    select gen_random_uuid(), gen_random_uuid(), ${tenantId}::uuid, ${newId()}::uuid, ${recordId}::uuid, 1, now(), now(),
      0, gen_random_uuid()
    from generate_series(1, ${n}::int)`);
}

interface Pending {
  position: number;
  is_blocked: boolean;
}

const pending = (): Promise<Pending[]> =>
  service.app.db.rows<Pending>(sql`
    select position, is_blocked from platform.rule_runs where tenant_id = ${tenantId}::uuid order by position`);
const claim = (queries: Queries = service.app.db) => claimRun(queries, tenantId);
const end = (run: RuleRun): Promise<unknown> => service.app.db.begin((tx) => takeRun(tx, run));

/** Claims a run for a minute: on a busy machine, its attempt might be over before the next statement. */
async function claimed(): Promise<RuleRun> {
  const run = await claim();
  if (run === undefined) throw new Error('no run is due');
  await service.app.db.rows(sql`
    update platform.rule_runs set next_at = now() + interval '1 minute' where position = ${run.position}::bigint`);
  return run;
}

/** Claims and ends the remaining runs. Returns the runs of each record in the order of their ends. */
async function endAll(workers: number, onClaimed: (run: RuleRun) => boolean = () => true): Promise<number[][]> {
  const ended: RuleRun[] = [];
  const work = async (): Promise<void> => {
    while ((await pending()).length > 0) {
      const run = await claim();
      if (run === undefined) continue;
      if (!onClaimed(run))
        await service.app.db.rows(
          sql`update platform.rule_runs set next_at = now() where position = ${run.position}::bigint`,
        );
      else {
        await service.app.db.begin(async (tx) => {
          await takeRun(tx, run);
          ended.push(run);
        });
      }
    }
  };
  await Promise.all(Array.from({ length: workers }, work));
  return record.map((id) => ended.filter((run) => run.id === id).map(({ position }) => position));
}

describe('the queue of rule runs', () => {
  test('marks blocked runs, so that a claim finds few; the end of a run makes only the next one due', async () => {
    await queue(record[0], 1_000);
    const head = await claimed();
    expect(await claim()).toBeUndefined();
    const [first, second, third] = await pending();
    expect([first?.position, first?.is_blocked]).toEqual([head.position, false]);
    expect((await pending()).filter(({ is_blocked }) => !is_blocked).length).toBeLessThanOrEqual(2);
    await end(head);
    expect((await pending()).filter(({ is_blocked }) => !is_blocked)).toEqual(
      [second as Pending].map((run) => ({ ...run, is_blocked: false })),
    );
    expect((await claimed()).position).toBe(second?.position as number);
    expect(third?.is_blocked).toBe(true);
  });

  test('a run that waits for its next attempt blocks later runs of its record, and no other record’s', async () => {
    await queue(record[0], 30);
    await queue(record[1], 1);
    const head = await claimed();
    await retryLater(service.app.db, head);
    const other = await claimed();
    expect(other.id).toBe(record[1]);
    expect(await claim()).toBeUndefined();
    await end(other);
    expect(await claim()).toBeUndefined();
    await end(head);
    expect((await claimed()).id).toBe(record[0]);
  });

  test('a claim during the uncommitted end of a run leaves the next one due', async () => {
    await queue(record[0], 50);
    const head = await claimed();
    await service.app.db.begin(async (tx) => {
      await takeRun(tx, head);
      if (!isEmbedded) {
        await queue(record[0], 50);
        expect(await claim()).toBeUndefined();
      }
    });
    const [next] = await pending();
    expect((await claimed()).position).toBe(next?.position as number);
  });

  test('an end that begins during the uncommitted marks of a claim sees them', async () => {
    await queue(record[0], 50);
    const head = await claimed();
    let ending: Promise<unknown> = Promise.resolve();
    await service.app.db.begin(async (tx) => {
      await claim(tx);
      if (isEmbedded) return;
      await queue(record[0], 50);
      ending = end(head);
      const waits = sql`
        select from pg_locks as l join pg_stat_activity as a on a.pid = l.pid
        where not l.granted and a.datname = current_database() and a.query like '%rule_runs%'`;
      while ((await service.app.db.rows(waits)).length === 0);
    });
    await ending;
    if (isEmbedded) await end(head);
    const [next] = await pending();
    expect((await claimed()).position).toBe(next?.position as number);
  });

  test('an end that is rolled back leaves the next run blocked', async () => {
    await queue(record[0], 50);
    const head = await claimed();
    await claim();
    const rolledBack = service.app.db.begin(async (tx) => {
      await takeRun(tx, head);
      throw new Error('rolled back');
    });
    await expect(rolledBack).rejects.toThrow('rolled back');
    expect(await claim()).toBeUndefined();
    await end(head);
    expect(await claim()).toBeDefined();
  });

  test('many workers end every run once and in the order of its record, while others queue more', async () => {
    let claims = 0;
    const onClaimed = (): boolean => ++claims % 7 !== 0;
    for (const id of record) await queue(id, 80);
    const more = async (): Promise<void> => {
      for (let i = 0; i < 20; i++) await queue(record[i % 3] as string, 3);
    };
    const [ended] = await Promise.all([endAll(6, onClaimed), more()]);
    const rest = await endAll(2);
    for (const [i, positions] of ended.entries()) {
      const order = [...positions, ...(rest[i] ?? [])];
      expect(order).toEqual(order.toSorted((a, b) => a - b));
      expect(new Set(order).size).toBe(order.length);
    }
    expect([...ended, ...rest].flat()).toHaveLength(300);
  }, 60_000);
});

test('waiting runs are counted up to a bound, and estimated beyond it', async () => {
  await queue(record[0], 5);
  expect(await countRuns(service.app.db)).toBeGreaterThanOrEqual(5);
  expect(await countRuns(service.app.db, 2)).toBeGreaterThanOrEqual(3);
});
