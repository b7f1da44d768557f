// Which processes of the service are alive: those with a connection to its database. When a process has died, another one
// finishes or undoes its work.
// Contract: decisions#operations.
import type { App } from '../app.ts';

/**
 * The ids of the living processes, including this one. Empty when they are not known: if the server does not show this process,
 * it does not show others either.
 */
export async function liveProcesses({ config, db }: Pick<App, 'config' | 'db'>): Promise<readonly string[]> {
  // The embedded database has only one process at a time: any other process ran before this one.
  if (config.databaseUrl === null) return [db.id];
  const connected = await db.connectedIds();
  return connected.includes(db.id) ? connected : [];
}
