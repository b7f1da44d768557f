// The service for tests as a process of its own under Deno, as its users start it there. The test's
// process opens the same stores beside it, so that a test may look into the database and call operations
// all the same; what lives in the serving process alone (its metrics, its readiness) cannot be seen so.
// Needs a real Postgres and a real Redis: the two processes hear of each other's changes through them.
import { readFileSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { type App, closeApp, createApp } from '../../src/app.ts';
import type { Config } from '../../src/config.ts';
import { createLog } from '../../src/runtime/log.ts';
import { denoBinary } from './served.ts';
import { ROOT } from './source.ts';
import { type Started, startProcess } from './started.ts';

/** Those of `deno task start`. */
const FLAGS = (JSON.parse(readFileSync(join(ROOT, 'deno.json'), 'utf8')).tasks.start as string)
  .split(' ')
  .filter((word) => word.startsWith('--'));

/** A service that listens, however it was started. */
export interface RunningService {
  /** The application where it runs in the test's process, else the test's own view of its stores. */
  app: App;
  databaseUrl: string;
  /** What the service logged so far, one JSON line each. */
  readonly logged: string[];
  /** Resolves when no mail waits to be written. */
  mailSettled(): Promise<void>;
  stop(): Promise<void>;
}

/** Starts it with `environment`, of which `config` is the reading. Rejects when it does not come to listen. */
export async function startOnDeno(environment: Record<string, string>, config: Config): Promise<RunningService> {
  const { databaseUrl, redisUrl } = config;
  if (databaseUrl === null || redisUrl === null) throw new Error('the service under Deno is tested on real stores');
  const service: Started = startProcess([denoBinary(), 'run', ...FLAGS, 'src/main.ts'], environment);
  const address = await service.address;
  const app = await createApp(config, databaseUrl, createLog({ level: 'error' }));
  app.address = address;
  app.isReady = true;
  return {
    app,
    databaseUrl,
    get logged() {
      return service.errors.split('\n').filter((line) => line !== '');
    },
    mailSettled: () => directoryUnchanged(address, join(config.dataDir, 'mail')),
    stop: async () => {
      const { code, signal } = await service.end();
      await closeApp(app);
      if (code !== 0) throw new Error(`the service ended with ${code ?? signal}: ${service.errors.slice(-2_000)}`);
    },
  };
}

/**
 * Resolves when nothing has come into a directory for a while: from outside nothing else can be seen. How long that is
 * the service itself says, by as many answers as it takes far more work for than for a mail.
 */
async function directoryUnchanged(address: string, directory: string): Promise<void> {
  let before = '';
  for (let still = 0; still < 20; ) {
    await fetch(`${address}/ready`);
    await delay(20);
    const names = (await readdir(directory).catch(() => [])).join('\n');
    still = names === before ? still + 1 : 0;
    before = names;
  }
}
