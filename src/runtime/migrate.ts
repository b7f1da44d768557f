// Platform migrations: the files NNNN_topic.sql of a directory, applied in order, each in one transaction
// and recorded with its checksum in platform.migrations. Processes that start together take turns by an
// advisory lock and check again under it, so none is run twice. A file that was changed after it had
// been applied stops the start. Durations are bounded by the slow pool's deadline.
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';

import type { PooledQueries, Transaction } from './postgres.ts';
import { type Queries, raw, sql } from './sql.ts';

interface Migration {
  name: string;
  text: string;
  checksum: string;
}

const FILE_NAME = /^\d{4}_[a-z0-9_]+\.sql$/;
const LOCK = raw(`select pg_advisory_xact_lock(hashtext('platform.migrations'))`);
const BOOKKEEPING = `
  create schema if not exists platform;
  create table if not exists platform.migrations (
    name text primary key,
    checksum text not null,
    applied_at timestamptz not null default now()
  );`;

/** Brings the platform schema up to date; resolves to the names applied by this call, in order. */
export async function migrate(db: { slow: PooledQueries }, directory: string | URL): Promise<string[]> {
  const migrations = await readMigrations(directory instanceof URL ? fileURLToPath(directory) : directory);
  await db.slow.begin(async (tx) => {
    await tx.rows(LOCK);
    await tx.exec(BOOKKEEPING);
  });
  const applied: string[] = [];
  for (const migration of migrations) {
    if (await isApplied(db.slow, migration)) continue;
    if (await db.slow.begin((tx) => applyOnce(tx, migration))) applied.push(migration.name);
  }
  return applied;
}

async function readMigrations(directory: string): Promise<Migration[]> {
  const names = (await readdir(directory)).filter((name) => FILE_NAME.test(name)).sort();
  const numbers = names.map((name) => name.slice(0, 4));
  const twice = numbers.find((number, i) => numbers[i + 1] === number);
  if (twice !== undefined) throw new Error(`two migrations are numbered ${twice} in ${directory}`);
  return Promise.all(names.map((name) => readMigration(directory, name)));
}

async function readMigration(directory: string, name: string): Promise<Migration> {
  const text = await readFile(`${directory}/${name}`, 'utf8');
  return { name, text, checksum: createHash('sha256').update(text).digest('hex') };
}

async function applyOnce(tx: Transaction, migration: Migration): Promise<boolean> {
  await tx.rows(LOCK);
  if (await isApplied(tx, migration)) return false;
  try {
    await tx.exec(migration.text);
  } catch (cause) {
    throw new Error(`migration ${migration.name} failed`, { cause });
  }
  await tx.rows(
    sql`insert into platform.migrations (name, checksum) values (${migration.name}, ${migration.checksum})`,
  );
  return true;
}

async function isApplied(db: Queries, { name, checksum }: Migration): Promise<boolean> {
  const row = await db.first<{ checksum: string }>(sql`select checksum from platform.migrations where name = ${name}`);
  if (row !== undefined && row.checksum !== checksum) {
    throw new Error(`migration ${name} was changed after it had been applied; put it back and add a new one`);
  }
  return row !== undefined;
}
