// Which processes of the service are alive: those that are connected to its database. What a dead one has begun, another one ends
// or undoes.
// Contract: decisions#operations.
import type { App } from '../app.ts';

/** The ids of the processes, this one too. Empty if they are not known: a server that does not show this one does not show the others. */
export async function liveProcesses({ config, db }: Pick<App, 'config' | 'db'>): Promise<readonly string[]> {
  // The embedded database has one process at a time: any other was before this one.
  if (config.databaseUrl === null) return [db.id];
  const connected = await db.connectedIds();
  return connected.includes(db.id) ? connected : [];
}
