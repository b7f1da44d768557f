// A program that uses an embedded database: `embedded-child.ts <dataDir>` inserts rows until it is killed and prints
// the number of each acknowledged row.
import process from 'node:process';

import { startEmbedded } from '../../src/runtime/embedded.ts';
import { createLog } from '../../src/runtime/log.ts';
import { openDatabase } from '../../src/runtime/postgres.ts';
import { sql } from '../../src/runtime/sql.ts';

const log = createLog({ level: 'error' });
const { url } = await startEmbedded(process.argv[2] ?? '', log);
const db = openDatabase({ url, log });
await db.exec('create table if not exists survivors (n int primary key)');
const last = await db.first<{ n: number }>(sql`select coalesce(max(n), 0) as n from survivors`);
let next = last?.n ?? 0;
const writer = async (): Promise<never> => {
  for (;;) {
    const n = ++next;
    await db.rows(sql`insert into survivors values (${n})`);
    process.stdout.write(`${n}\n`);
  }
};
await Promise.all([writer(), writer(), writer(), writer()]);
