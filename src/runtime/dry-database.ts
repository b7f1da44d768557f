// The database as a dry run sees it: one transaction that is rolled back at the end. Each transaction of the call, and each statement
// outside of one, becomes a savepoint, so a failure undoes only its own part, as it would outside a dry run. Nothing commits, so
// nothing that would follow a commit happens.
// Contract: trying#dry-runs.
import { AsyncLocalStorage } from 'node:async_hooks';
import type { ByteBudget } from './byte-budget.ts';
import { SerialQueue } from './concurrency.ts';
import type { DryRun } from './dry-run.ts';
import type { Database, PooledQueries, Transaction } from './postgres.ts';
import type { Sql } from './sql.ts';

/** The dry run whose part is running. */
const running = new AsyncLocalStorage<DryRun>();

/**
 * Its parts share one connection and run one at a time. Queries that a part makes belong to that part.
 */
export function dryDatabase(database: Database, tx: Transaction, dryRun: DryRun): Database {
  const queue = new SerialQueue();
  const part = <T>(work: () => Promise<T>): Promise<T> => {
    const run = () => dryRun.part(() => inSavepoint(tx, work));
    return running.getStore() === dryRun ? run() : queue.run(() => running.run(dryRun, run));
  };
  const rows = <T>(query: Sql, budget?: ByteBudget): Promise<T[]> => part(() => tx.rows<T>(query, budget));
  const first = async <T>(query: Sql): Promise<T | undefined> => (await rows<T>(query))[0];
  const begin: PooledQueries['begin'] = (work) => part(() => inner(tx, dryRun, work));
  const queries: PooledQueries = { dryRun, rows, first, begin };
  const exec = (text: string): Promise<void> => part(() => tx.exec(text));
  return { ...database, ...queries, slow: queries, exec, runUntil: async (query) => void (await rows(query)) };
}

async function inSavepoint<T>(tx: Transaction, work: () => Promise<T>): Promise<T> {
  await tx.exec('savepoint part');
  try {
    const done = await work();
    await tx.exec('release savepoint part');
    return done;
  } catch (error) {
    await tx.exec('rollback to savepoint part; release savepoint part');
    throw error;
  }
}

/** A transaction of the call. It fails if a statement in it failed, even if the call goes on. */
async function inner<T>(tx: Transaction, dryRun: DryRun, work: (tx: Transaction) => Promise<T>): Promise<T> {
  let failure: { error: unknown } | undefined;
  const noting = async <R>(query: Promise<R>): Promise<R> => {
    try {
      return await query;
    } catch (error) {
      failure ??= { error };
      throw error;
    }
  };
  const done = await work({
    transaction: true,
    dryRun,
    rows: (query, budget) => noting(tx.rows(query, budget)),
    first: (query) => noting(tx.first(query)),
    exec: (text) => noting(tx.exec(text)),
  });
  if (failure !== undefined) throw failure.error;
  return done;
}
