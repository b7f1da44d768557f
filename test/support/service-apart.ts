// Runs the service under test as a process of its own, under Deno or Bun. The test's process opens an application on the same
// stores, so that a test can query the database and call operations; it cannot inspect the serving process (metrics, readiness).
// Needs a real Postgres and a real Redis, through which the two processes exchange invalidations.
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

/** The flags of `deno task start`. */
const FLAGS = (JSON.parse(readFileSync(join(ROOT, 'deno.json'), 'utf8')).tasks.start as string)
  .split(' ')
  .filter((word) => word.startsWith('--'));

const COMMANDS = {
  deno: () => [denoBinary(), 'run', ...FLAGS, 'src/main.ts'],
  /** Logs its stalls, for the fuzzer. */
  bun: () => ['node_modules/.bin/bun', '--no-env-file', '--preload', './scripts/fuzzing/log-stalls.ts', 'src/main.ts'],
};

/** The runtime that SERVICE_RUNTIME names; undefined: the test's own process. */
export function runtimeApart(name: string | undefined): keyof typeof COMMANDS | undefined {
  return name === 'deno' || name === 'bun' ? name : undefined;
}

/** A service that listens, however it was started. */
export interface RunningService {
  /** The application in the test's process, that of the service unless it is another process. */
  app: App;
  databaseUrl: string;
  /** The log of the service so far, one JSON line each. */
  readonly logged: string[];
  /** Resolves when no mail is queued. */
  mailSettled(): Promise<void>;
  stop(): Promise<void>;
}

/** Starts it with `environment`, from which `config` was read. Rejects if it does not listen. */
export async function startApart(
  runtime: keyof typeof COMMANDS,
  environment: Record<string, string>,
  config: Config,
): Promise<RunningService> {
  const { databaseUrl, redisUrl } = config;
  if (databaseUrl === null || redisUrl === null) throw new Error('a service apart is tested on real stores');
  const service: Started = startProcess(COMMANDS[runtime](), environment);
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
 * Resolves when a directory has not changed while the service answered twenty requests: the mail queue is not visible
 * from outside, and twenty requests take far longer than one mail.
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
