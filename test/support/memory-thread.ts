// The thread of an embedded database in memory, for embedded-databases.ts: engine and multiplexer as in
// src/runtime/embedded/thread.ts, but without files, from the image of a data directory. Started with
// `{ image, password }`; posts `{ port }` once it listens.
import { parentPort, workerData } from 'node:worker_threads';
import { PGlite } from '@electric-sql/pglite';
import { vector } from '@electric-sql/pglite-pgvector';
import { type Engine, Multiplexer } from '../../src/runtime/embedded/multiplexer.ts';

const { image, password } = workerData as { image: Blob; password: string };
const db = await PGlite.create({ loadDataDir: image, extensions: { vector } });
const version = await db.query<{ server_version: string }>('show server_version');
const engine: Engine = {
  serverVersion: version.rows[0]?.server_version ?? '',
  run: (messages, onRawData) => db.execProtocolRawStream(messages, { onRawData }),
  isInTransaction: () => db.isInTransaction(),
};
const multiplexer = new Multiplexer(engine, password, (error) => console.error(error));
parentPort?.postMessage({ port: await multiplexer.listen(0) });
