// The databases that a run of the suite was given: those that the environment names, else the embedded ones that
// scripts/test has made, one for each process that runs test files. And new embedded databases at the price of a
// copy, since making one from nothing takes seconds.
import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import process from 'node:process';

/** The `postgres:` address of the database for this process; undefined when the run was given none. */
export function givenDatabaseUrl(): string | undefined {
  const { BUN_TEST_WORKER_ID = '1', DATABASE_URL, SHARED_TEST_DATABASE_URLS = '' } = process.env;
  return DATABASE_URL || SHARED_TEST_DATABASE_URLS.split(' ')[Number(BUN_TEST_WORKER_ID) - 1] || undefined;
}

/**
 * Puts an empty embedded database that was stopped in order into `dataDir`, as a start would have made it there.
 * Without a template, as when `bun test` is called directly, the start makes it.
 */
export async function copyEmbedded(dataDir: string): Promise<void> {
  const template = process.env.EMBEDDED_TEMPLATE;
  if (template) await cp(join(template, 'postgres'), join(dataDir, 'postgres'), { recursive: true });
}
