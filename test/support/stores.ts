// The stores that this process of the test runner uses. `scripts/test` starts one process per file at a time and names
// the stores of each in lists, by worker: TEST_DATABASE_URLS and TEST_REDIS_URLS for real stores; for the embedded
// databases that it started itself, TEST_EMBEDDED_DATABASES is where to ask. Loaded by preload.ts before every test file.
import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import process from 'node:process';

const WORKER = process.env.BUN_TEST_WORKER_ID ?? '1';

/**
 * Sets DATABASE_URL and REDIS_URL to the real stores of this worker, if the run has a list of them, else
 * TEST_EMBEDDED_URL to the embedded database of this worker.
 */
export async function useStoresOfWorker(): Promise<void> {
  for (const name of ['DATABASE_URL', 'REDIS_URL']) {
    const url = process.env[`TEST_${name}S`]?.split(' ')[Number(WORKER) - 1];
    if (url) process.env[name] = url;
  }
  const databases = process.env.TEST_EMBEDDED_DATABASES;
  if (process.env.DATABASE_URL || !databases) return;
  const response = await fetch(`${databases}/${WORKER}`);
  if (!response.ok) throw new Error(`no embedded database: ${await response.text()}`);
  process.env.TEST_EMBEDDED_URL = await response.text();
}

/** The `postgres:` address of the database that test files of this process share; undefined if there is none. */
export function givenDatabaseUrl(): string | undefined {
  return process.env.DATABASE_URL || process.env.TEST_EMBEDDED_URL;
}

/**
 * Copies an empty embedded database into `dataDir`: creating one takes seconds. Without a template, as when `bun test`
 * is called directly, the start of the service creates it.
 */
export async function copyEmbedded(dataDir: string): Promise<void> {
  const template = process.env.TEST_EMBEDDED_TEMPLATE;
  if (template) await cp(join(template, 'postgres'), join(dataDir, 'postgres'), { recursive: true });
}
