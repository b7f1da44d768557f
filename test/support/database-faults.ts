// Database failures under load, and what must hold afterwards: no acknowledged write is lost and every call settles.
// They run on a real server and, through a proxy that cuts connections, on the embedded one.
import { expect } from 'bun:test';

import type { Database } from '../../src/runtime/postgres.ts';
import { raw, sql } from '../../src/runtime/sql.ts';

export const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

interface Outcome {
  acknowledged: number[];
  rejected: number;
  unsettled: number;
}

const UNSETTLED_AFTER_MS = 20_000;
let nextTable = 0;

/** Queues short calls and transactions behind three slow calls, then writes 300 rows while connections are leased. */
export async function burst(db: Database, cutIdleTransactions: () => Promise<void>): Promise<void> {
  const table = await newTable(db);
  const calls: Promise<unknown>[] = [1, 2, 3].map(() => db.first(sql`select pg_sleep(0.3)`));
  for (let i = 0; i < 297; i++) calls.push(db.first(sql`select 1`));
  for (let i = 0; i < 5; i++) calls.push(db.begin((tx) => tx.first(sql`select 1`)));
  await Promise.all(calls);
  const acknowledged: number[] = [];
  for (let n = 0; n < 300; n++) {
    await db.rows(sql`insert into ${raw(table)} (n) values (${n})`);
    acknowledged.push(n);
  }
  await cutIdleTransactions();
  expect(await lost(db, table, acknowledged)).toEqual([]);
}

/**
 * Runs `disturb` during the writes of sixteen writers, half of them in transactions; `written` waits for further
 * acknowledged writes.
 * Afterwards nothing is lost, nothing hangs, and the database answers within 10 s.
 */
export async function writeWhile(
  db: Database,
  disturb: (written: (count: number) => Promise<void>) => Promise<void>,
): Promise<void> {
  const table = await newTable(db);
  const outcome: Outcome = { acknowledged: [], rejected: 0, unsettled: 0 };
  let isOver = false;
  let next = 0;
  const write = async (inTransaction: boolean): Promise<void> => {
    const n = next++;
    const insert = sql`insert into ${raw(table)} (n) values (${n})`;
    const call = inTransaction ? db.begin((tx) => tx.rows(insert)) : db.rows(insert);
    const settled = call.then(
      () => outcome.acknowledged.push(n),
      () => outcome.rejected++,
    );
    const inTime = await Promise.race([settled, sleep(UNSETTLED_AFTER_MS).then(() => 'unsettled' as const)]);
    if (inTime === 'unsettled') outcome.unsettled++;
  };
  const writers = Array.from({ length: 16 }, async (_, i) => {
    while (!isOver) {
      await write(i % 2 === 0);
      await sleep(1);
    }
  });
  await disturb(async (count) => {
    const enough = outcome.acknowledged.length + count;
    while (outcome.acknowledged.length < enough) await sleep(1);
  });
  await answersWithin(db, 10_000);
  isOver = true;
  await Promise.all(writers);
  expect(outcome.unsettled).toBe(0);
  expect(await lost(db, table, outcome.acknowledged)).toEqual([]);
}

/** Waits until the database answers; fails after `ms`, unless this process was too delayed to make ten attempts. */
export async function answersWithin(db: Database, ms: number): Promise<void> {
  const startedAt = Date.now();
  for (let asked = 1; ; asked++) {
    try {
      return await db.ping();
    } catch (error) {
      if (Date.now() - startedAt > ms && asked >= 10) throw error;
      await sleep(50);
    }
  }
}

async function newTable(db: Database): Promise<string> {
  const table = `faults_${Date.now()}_${++nextTable}`;
  await db.exec(`create table ${table} (n int primary key)`);
  return table;
}

async function lost(db: Database, table: string, acknowledged: number[]): Promise<number[]> {
  const stored = new Set((await db.rows<{ n: number }>(sql`select n from ${raw(table)}`)).map(({ n }) => n));
  return acknowledged.filter((n) => !stored.has(n));
}
