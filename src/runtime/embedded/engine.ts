// The thread of the embedded Postgres: PGlite with pgvector and the gateway in front of it, away from the thread
// that serves requests, because the engine blocks its own thread while it works. Started by embedded.ts with
// `{ directory, port, password }`; tells `{ port }` or `{ error }`; any message to it means stop.
import { parentPort, workerData } from 'node:worker_threads';
import { PGlite } from '@electric-sql/pglite';
import { vector } from '@electric-sql/pglite-pgvector';

import { type Engine, Gateway } from './gateway.ts';

const { directory, port, password } = workerData as { directory: string; port: number; password: string };

try {
  await start();
} catch (error) {
  parentPort?.postMessage({ error: describe(error) });
}

async function start(): Promise<void> {
  const db = await PGlite.create({ dataDir: directory, extensions: { vector } });
  const version = await db.query<{ server_version: string }>('show server_version');
  const engine: Engine = {
    serverVersion: version.rows[0]?.server_version ?? '',
    run: (messages, onRawData) => db.execProtocolRawStream(messages, { onRawData }),
    isInTransaction: () => db.isInTransaction(),
  };
  const broken = (error: unknown): void => parentPort?.postMessage({ error: describe(error) });
  const gateway = new Gateway(engine, password, broken);
  const listening = await gateway.listen(port);
  parentPort?.on('message', () => void stop(db, gateway));
  parentPort?.postMessage({ port: listening });
}

async function stop(db: PGlite, gateway: Gateway): Promise<void> {
  await gateway.close();
  try {
    await db.close();
    parentPort?.postMessage({ stopped: true });
  } catch (error) {
    parentPort?.postMessage({ stopped: true, error: describe(error) });
  }
}

function describe(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
