// The thread of the embedded database: PGlite with pgvector, and the multiplexer in front of it. Separate from
// the thread that serves requests, because the engine blocks its thread while it works. embedded.ts passes
// `{ directory, port, password }`; the thread posts `{ port }` or `{ error }`; any message to it means stop.
import { parentPort, workerData } from 'node:worker_threads';
import { PGlite } from '@electric-sql/pglite';
import { vector } from '@electric-sql/pglite-pgvector';

import { type Engine, Multiplexer } from './multiplexer.ts';

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
  const onFailure = (error: unknown): void => parentPort?.postMessage({ error: describe(error) });
  const multiplexer = new Multiplexer(engine, password, onFailure);
  const listeningPort = await multiplexer.listen(port);
  parentPort?.on('message', () => void stop(db, multiplexer));
  parentPort?.postMessage({ port: listeningPort });
}

async function stop(db: PGlite, multiplexer: Multiplexer): Promise<void> {
  await multiplexer.close();
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
