// The stores that this process of the test runner uses. `scripts/test` starts one process per file at a time and names
// the stores of each in lists, by worker: TEST_DATABASE_URLS and TEST_REDIS_URLS for real stores,
// TEST_EMBEDDED_URLS for the embedded databases that it started itself. Loaded by preload.ts before every test file.
import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import process from 'node:process';

/** Sets DATABASE_URL and REDIS_URL to the real stores of this worker, if the run has a list of them. */
export function useStoresOfWorker(): void {
  for (const name of ['DATABASE_URL', 'REDIS_URL']) {
    const url = ofWorker(process.env[`TEST_${name}S`]);
    if (url !== undefined) process.env[name] = url;
  }
}

/** The `postgres:` address of the database that test files of this process share; undefined if there is none. */
export function givenDatabaseUrl(): string | undefined {
  return process.env.DATABASE_URL || ofWorker(process.env.TEST_EMBEDDED_URLS);
}

function ofWorker(list = ''): string | undefined {
  const { BUN_TEST_WORKER_ID = '1' } = process.env;
  return list.split(' ')[Number(BUN_TEST_WORKER_ID) - 1] || undefined;
}

/**
 * Copies an empty embedded database into `dataDir`: creating one takes seconds. Without a template, as when `bun test`
 * is called directly, the start of the service creates it.
 */
export async function copyEmbedded(dataDir: string): Promise<void> {
  const template = process.env.TEST_EMBEDDED_TEMPLATE;
  if (template) await cp(join(template, 'postgres'), join(dataDir, 'postgres'), { recursive: true });
}
