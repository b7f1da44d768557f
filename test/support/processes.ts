// Service processes on shared stores, for tests of what must hold across processes. The stores are those of the
// environment, else private servers; without Redis `redisUrl` is undefined and only one process is possible.
// `stop` and `kill` end a process; `endAll` of started.ts ends those that a failed test left running.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { startEmbedded } from '../../src/runtime/embedded.ts';
import { createLog } from '../../src/runtime/log.ts';
import { privatePostgres, privateRedis } from './private-servers.ts';
import { SECRETS } from './service.ts';
import { newDataDir, START, startProcess } from './started.ts';
import { givenDatabaseUrl } from './stores.ts';

export interface ServiceProcess {
  url: string;
  pid: number;
  /** Its log so far, one JSON line each. */
  logged(): string[];
  /** SIGTERM; resolves to the exit code once it has ended. */
  stop(): Promise<number | null>;
  /** SIGKILL; resolves once it has ended. */
  kill(): Promise<void>;
}

/** Starts a process on the stores in `env`, with the tests' secrets; resolves once it listens. */
export async function startServiceProcess(env: Record<string, string>): Promise<ServiceProcess> {
  const child = startProcess(START, { DEMO: '0', DATA_DIR: await newDataDir(), ...SECRETS, ...env });
  return {
    url: await child.address,
    pid: child.pid,
    logged: () => child.errors.split('\n').filter((line) => line !== ''),
    stop: async () => (await child.end('SIGTERM')).code,
    kill: async () => void (await child.end('SIGKILL')),
  };
}

export interface SharedStores {
  databaseUrl: string;
  /** Undefined on a machine without Redis. */
  redisUrl: string | undefined;
  /** The variables that put a process on these stores. */
  environment: Record<string, string>;
  /** Removes the private servers. */
  remove(): Promise<void>;
}

/** Stores that several processes can share. */
export async function sharedStores(): Promise<SharedStores> {
  const given = givenDatabaseUrl();
  const database = given ? { url: given, remove: async () => undefined } : await ownDatabase();
  const redis = process.env.REDIS_URL ? undefined : await privateRedis();
  const redisUrl = process.env.REDIS_URL || redis?.url;
  return {
    databaseUrl: database.url,
    redisUrl,
    environment: { DATABASE_URL: database.url, ...(redisUrl === undefined ? {} : { REDIS_URL: redisUrl }) },
    remove: async () => {
      await database.remove();
      await redis?.remove();
    },
  };
}

async function ownDatabase(): Promise<{ url: string; remove(): Promise<void> }> {
  const server = await privatePostgres();
  if (server !== undefined) return server;
  const directory = await mkdtemp(join(tmpdir(), 'shared-stores-'));
  const embedded = await startEmbedded(directory, createLog({ level: 'error', write: () => undefined }));
  const remove = async (): Promise<void> => {
    await embedded.stop();
    await rm(directory, { recursive: true, force: true });
  };
  return { url: embedded.url, remove };
}
