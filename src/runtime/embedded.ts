// The default database: PGlite (Postgres as WebAssembly, with pgvector) in a thread of this process, stored in
// `DATA_DIR/postgres` and reached by the usual Postgres client through a loopback port. Acknowledged writes
// survive a crash of the process; one process per directory. The first start takes seconds. All
// connections share one session: their statements run one after another, they share session settings and
// advisory locks, and server-side timeouts and cancellation have no effect. A failed engine is restarted at the same
// address; one stuck in an endless statement is not, since it cannot be stopped. Contract: decisions#configuration.
import { randomBytes } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';

import { lockFile } from './embedded/lock-file.ts';
import type { Log } from './log.ts';

export interface Embedded {
  /** A `postgres:` address with a password valid until `stop`. */
  url: string;
  /** Ends all connections, closes the database and unlocks the directory. */
  stop(): Promise<void>;
}

interface Message {
  port?: number;
  stopped?: boolean;
  error?: string;
}

const STOP_WITHIN_MS = 10_000;
const RESTART_PAUSE_MS = 500;

/** Starts the database in `dataDir/postgres`. Rejects when another process uses the directory or the files are damaged. */
export async function startEmbedded(dataDir: string, log: Log): Promise<Embedded> {
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  const unlock = await lockFile(join(dataDir, 'postgres.lock'));
  const password = randomBytes(24).toString('hex');
  const thread = new DatabaseThread(join(dataDir, 'postgres'), password, log);
  try {
    const port = await thread.start();
    const url = `postgres://postgres:${password}@127.0.0.1:${port}/postgres`;
    return { url, stop: () => thread.stop().finally(unlock) };
  } catch (error) {
    await thread.stop();
    await unlock();
    throw error;
  }
}

/** The database's thread, replaced when it fails. */
class DatabaseThread {
  #worker: Worker | undefined;
  #port = 0;
  #isStopping = false;

  constructor(
    private readonly directory: string,
    private readonly password: string,
    private readonly log: Log,
  ) {}

  async stop(): Promise<void> {
    this.#isStopping = true;
    const worker = this.#worker;
    if (worker === undefined) return;
    const stopped = new Promise<boolean>((resolve) => {
      worker.on('message', (message: Message) => message.stopped && resolve(true));
      setTimeout(() => resolve(false), STOP_WITHIN_MS).unref();
    });
    worker.postMessage('stop');
    if (!(await stopped)) this.log.warn('the embedded database did not stop in time; the next start runs recovery');
    await worker.terminate();
  }

  /** Resolves to the port. */
  async start(): Promise<number> {
    const startedAt = Date.now();
    const workerData = { directory: this.directory, port: this.#port, password: this.password };
    const worker = new Worker(new URL('./embedded/thread.ts', import.meta.url), { workerData });
    this.#port = await firstMessage(worker);
    this.#worker = worker;
    worker.on('message', (message: Message) => {
      if (message.error !== undefined) void this.#restart(worker, message.error);
    });
    worker.on('error', (error) => void this.#restart(worker, error));
    this.log.info('embedded database started', { directory: this.directory, durationMs: Date.now() - startedAt });
    return this.#port;
  }

  /** Postgres recovers the files as after a crash. */
  async #restart(failed: Worker, error: unknown): Promise<void> {
    if (this.#isStopping || this.#worker !== failed) return;
    this.#worker = undefined;
    this.log.error('the embedded database failed and is restarted', { error });
    await failed.terminate();
    while (!this.#isStopping && this.#worker === undefined) {
      try {
        await this.start();
      } catch (cause) {
        this.log.error('the embedded database could not be restarted', { error: cause });
        await delay(RESTART_PAUSE_MS);
      }
    }
  }
}

async function firstMessage(worker: Worker): Promise<number> {
  try {
    return await new Promise<number>((resolve, reject) => {
      worker.once('message', (message: Message) => {
        if (message.port !== undefined) resolve(message.port);
        else reject(new Error(`the embedded database could not start: ${message.error}`));
      });
      worker.once('error', reject);
    });
  } catch (error) {
    await worker.terminate();
    throw error;
  }
}
