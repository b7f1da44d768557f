// Statements that can be left to the server. When their caller moves on, the server completes them and ends the session: it reads what a
// client sends after a statement, such as the end of the session, only once that statement has ended.
// Failures: those of the statement, until it is left. Times are milliseconds.
import { setTimeout as delay } from 'node:timers/promises';
import { compile, type Sql } from '../sql.ts';
import type { Pool } from './pool.ts';
import { bindValues } from './values.ts';

const POLL_MS = 100;

/** Runs a statement until it has ended, or until `mayBeLeft` says that its server process may be left alone with it. */
export async function runUntil(pool: Pool, query: Sql, mayBeLeft: (pid: number) => Promise<boolean>): Promise<void> {
  const { text, parameters } = compile(query);
  bindValues(parameters);
  await pool.lease(async (lease) => {
    const { connection } = lease;
    let isOver = false;
    const running = lease.run(text, parameters, { plans: 'each time' }).finally(() => {
      isOver = true;
    });
    // A statement that is left is rejected with the end of the connection.
    running.catch(() => undefined);
    for (;;) {
      await Promise.race([running, delay(POLL_MS)]);
      if (isOver) return;
      // A check that fails is repeated: when the database is away, the statement fails too.
      if (await mayBeLeft(connection.pid).catch(() => false)) break;
    }
    if (!isOver) connection.end();
  });
}
