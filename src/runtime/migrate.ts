// Migrations: the files NNNN_topic.sql of a directory, numbered from 0001 without gaps. Migrations of the platform schema run here, each in
// one transaction, and are recorded with their checksums in platform.migrations. Migrations of the tenant schema run per tenant
// (src/tenants) and are only recorded here. An advisory lock serialises processes that start together. A changed checksum of a recorded
// file prevents the start.
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';

import type { Log } from './log.ts';
import { isDeadlock } from './postgres/failures.ts';
import type { PooledQueries, Transaction } from './postgres.ts';
import { type Queries, raw, sql } from './sql.ts';

export interface Migration {
  name: string;
  text: string;
}

/** The tenant schema: ordered migrations, then the rows that every tenant has. `search_path` must name the schema. */
export interface TenantSchema {
  migrations: readonly Migration[];
  /** Creates in an empty schema, in one step, what the first `version` migrations create. */
  baseline: { version: number; text: string };
  /** Idempotent. */
  seed: string;
}

const SQL_DIRECTORY = new URL('../../sql/', import.meta.url);
/** Attempts to run a migration that others keep in deadlocks. */
const TRIES = 5;
const FILE_NAME = /^\d{4}_[a-z0-9_]+\.sql$/;
const BASELINE_VERSION = 9;
const LOCK = raw(`select pg_advisory_xact_lock(hashtext('platform.migrations'))`);
const BOOKKEEPING = `
  create schema if not exists platform;
  create table if not exists platform.migrations (
    name text primary key,
    checksum text not null,
    applied_at timestamptz not null default now()
  );`;

/** Migrates the platform schema and checks the tenant migrations. Resolves to the tenant schema. */
export async function migratePlatform(db: { slow: PooledQueries }, log: Log): Promise<TenantSchema> {
  for (const name of await migrate(db, new URL('platform/', SQL_DIRECTORY))) log.info('migration applied', { name });
  const migrations = await readMigrations(new URL('tenant/', SQL_DIRECTORY));
  await recordTenantMigrations(db, migrations);
  const file = (name: string): Promise<string> => readFile(new URL(`tenant/${name}.sql`, SQL_DIRECTORY), 'utf8');
  const baseline = { version: BASELINE_VERSION, text: await file('baseline') };
  return { migrations, baseline, seed: await file('seed') };
}

/** The migrations of a directory, in order. Rejects when a number is missing or used twice. */
async function readMigrations(directory: string | URL): Promise<Migration[]> {
  const path = directory instanceof URL ? fileURLToPath(directory) : directory;
  const names = (await readdir(path)).filter((name) => FILE_NAME.test(name)).sort();
  for (const [i, name] of names.entries()) {
    const number = name.slice(0, 4);
    if (names[i + 1]?.startsWith(number)) throw new Error(`two migrations are numbered ${number} in ${path}`);
    if (Number(number) !== i + 1) throw new Error(`migration ${i + 1} is missing in ${path}: found ${name}`);
  }
  return Promise.all(names.map(async (name) => ({ name, text: await readFile(`${path}/${name}`, 'utf8') })));
}

/** Runs the pending migrations of a directory; resolves to their names, in order. */
export async function migrate(db: { slow: PooledQueries }, directory: string | URL): Promise<string[]> {
  const migrations = await readMigrations(directory);
  await db.slow.begin(async (tx) => {
    await tx.rows(LOCK);
    await tx.exec(BOOKKEEPING);
  });
  const applied: string[] = [];
  for (const migration of migrations) {
    if (await isRecorded(db.slow, migration)) continue;
    if (await apply(db.slow, migration)) applied.push(migration.name);
  }
  return applied;
}

/** A process of the previous version may create or drop a partition at the same time: after a deadlock with it, tries again. */
async function apply(db: PooledQueries, migration: Migration): Promise<boolean> {
  for (let tries = 1; ; tries++) {
    try {
      return await db.begin((tx) => applyOnce(tx, migration));
    } catch (error) {
      if (!isDeadlock((error as Error).cause) || tries === TRIES) throw error;
    }
  }
}

async function applyOnce(tx: Transaction, migration: Migration): Promise<boolean> {
  await tx.rows(LOCK);
  if (await isRecorded(tx, migration)) return false;
  try {
    await tx.exec(migration.text);
  } catch (cause) {
    throw new Error(`migration ${migration.name} failed`, { cause });
  }
  await record(tx, migration);
  return true;
}

async function recordTenantMigrations(db: { slow: PooledQueries }, migrations: readonly Migration[]): Promise<void> {
  await db.slow.begin(async (tx) => {
    await tx.rows(LOCK);
    for (const { name, text } of migrations) {
      const migration = { name: `tenant/${name}`, text };
      if (!(await isRecorded(tx, migration))) await record(tx, migration);
    }
  });
}

async function record(tx: Transaction, { name, text }: Migration): Promise<void> {
  await tx.rows(sql`insert into platform.migrations (name, checksum) values (${name}, ${checksumOf(text)})`);
}

async function isRecorded(db: Queries, { name, text }: Migration): Promise<boolean> {
  const row = await db.first<{ checksum: string }>(sql`select checksum from platform.migrations where name = ${name}`);
  if (row !== undefined && row.checksum !== checksumOf(text)) {
    throw new Error(
      `migration ${name} was changed after it had been applied: restore the file and add a new one; ` +
        'a database created by an unreleased version cannot be upgraded, use a new one',
    );
  }
  return row !== undefined;
}

/** Ignores comment lines and blank lines, so that comments can be improved. */
function checksumOf(text: string): string {
  const statements = text.split('\n').filter((line) => !/^\s*(--|$)/.test(line));
  return createHash('sha256').update(statements.join('\n')).digest('hex');
}

/** Creates pgvector where the server offers it; false where it does not. Fails when the role may not create extensions. */
export async function addVectorExtension(db: PooledQueries, log: Log): Promise<boolean> {
  const available = await db.first(sql`select from pg_available_extensions where name = 'vector'`);
  if (available === undefined) {
    log.warn('this Postgres has no pgvector; documents are stored without embeddings');
    return false;
  }
  await db.begin(async (tx) => {
    // `create extension if not exists` fails when two sessions run it at the same time.
    await tx.first(sql`select pg_advisory_xact_lock(hashtext('extension vector'))`);
    await tx.rows(sql`create extension if not exists vector`);
  });
  return true;
}
