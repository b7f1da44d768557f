// The default database: Postgres compiled to WebAssembly (PGlite, with pgvector) in a thread of this process, with its
// files in `DATA_DIR/postgres`, reached by the ordinary Postgres client through a loopback port. Acknowledged writes
// survive the death of the process; one process per directory. The first start takes seconds, later ones less than one.
// One engine, one session: statements of all connections run one after another, session settings and advisory locks are
// shared, and server-side timeouts and cancelling do nothing. An engine that fails is started anew at the same address;
// one that a statement keeps busy for ever is not, it cannot be stopped. Contract: decisions#configuration.
import { randomBytes } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';

import { lockFile } from './embedded/lock.ts';
import type { Log } from './log.ts';

export interface Embedded {
  /** A `postgres:` address with a password that is good for this start only. */
  url: string;
  /** Ends connections, closes the database properly and frees the directory. */
  stop(): Promise<void>;
}

interface Message {
  port?: number;
  stopped?: boolean;
  error?: string;
}

const STOP_WITHIN_MS = 10_000;
const RESTART_PAUSE_MS = 500;

/** Starts the engine on `dataDir/postgres`. Rejects when another process uses the directory or the files are damaged. */
export async function startEmbedded(dataDir: string, log: Log): Promise<Embedded> {
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  const unlock = await lockFile(join(dataDir, 'postgres.lock'));
  const password = randomBytes(24).toString('hex');
  const engine = new EngineThread(join(dataDir, 'postgres'), password, log);
  try {
    const port = await engine.start();
    const url = `postgres://postgres:${password}@127.0.0.1:${port}/postgres`;
    return { url, stop: () => engine.stop().finally(unlock) };
  } catch (error) {
    await engine.stop();
    await unlock();
    throw error;
  }
}

/** The engine's thread, and a new one in its place when it fails. */
class EngineThread {
  #worker: Worker | undefined;
  #port = 0;
  #isStopping = false;

  constructor(
    private readonly directory: string,
    private readonly password: string,
    private readonly log: Log,
  ) {}

  async start(): Promise<number> {
    await this.#launch();
    return this.#port;
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    const worker = this.#worker;
    if (worker === undefined) return;
    const stopped = new Promise<boolean>((resolve) => {
      worker.on('message', (message: Message) => message.stopped && resolve(true));
      setTimeout(() => resolve(false), STOP_WITHIN_MS).unref();
    });
    worker.postMessage('stop');
    if (!(await stopped)) this.log.warn('the embedded database did not stop in time; its next start replays its log');
    await worker.terminate();
  }

  async #launch(): Promise<void> {
    const startedAt = Date.now();
    const workerData = { directory: this.directory, port: this.#port, password: this.password };
    const worker = new Worker(new URL('./embedded/engine.ts', import.meta.url), { workerData });
    this.#port = await firstMessage(worker);
    this.#worker = worker;
    worker.on('message', (message: Message) => {
      if (message.error !== undefined) void this.#restart(worker, message.error);
    });
    worker.on('error', (error) => void this.#restart(worker, error));
    this.log.info('embedded database started', { directory: this.directory, durationMs: Date.now() - startedAt });
  }

  /** The files are as after a crash of the process, which the engine recovers from. */
  async #restart(failed: Worker, error: unknown): Promise<void> {
    if (this.#isStopping || this.#worker !== failed) return;
    this.#worker = undefined;
    this.log.error('the embedded database failed and is started anew', { error });
    await failed.terminate();
    while (!this.#isStopping && this.#worker === undefined) {
      try {
        await this.#launch();
      } catch (cause) {
        this.log.error('the embedded database could not be started anew', { error: cause });
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
