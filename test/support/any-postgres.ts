// A database for one test file: a private Postgres server if one is installed, otherwise an embedded database.
// Some tests kill the server, or look at it: those ask whether there is one.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startEmbedded } from '../../src/runtime/embedded.ts';
import type { Log } from '../../src/runtime/log.ts';
import { type PrivatePostgres, privatePostgres } from './private-servers.ts';

export interface AnyPostgres {
  url: string;
  /** Undefined when the database is embedded. */
  server: PrivatePostgres | undefined;
  /** Stops the database and removes its files. */
  remove(): Promise<void>;
}

export async function anyPostgres(log: Log): Promise<AnyPostgres> {
  const server = await privatePostgres();
  if (server !== undefined) return { url: server.url, server, remove: () => server.remove() };
  const directory = await mkdtemp(join(tmpdir(), 'any-postgres-'));
  const embedded = await startEmbedded(directory, log);
  const remove = async (): Promise<void> => {
    await embedded.stop();
    await rm(directory, { recursive: true, force: true });
  };
  return { url: embedded.url, server, remove };
}
