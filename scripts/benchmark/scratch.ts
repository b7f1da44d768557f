// The databases of the run on the given Postgres, and empty numbered databases of the given Redis. The clean-up removes
// them. Parallel queries are off in all databases: parallel workers exit before their CPU can be read, and on one core
// they help neither side.

import { Redis } from 'ioredis';
import postgres from 'postgres';
import type { Cleanup } from './cleanup.ts';
import { postmasterOf } from './cpu.ts';
import type { Options } from './options.ts';

const HIGHEST_REDIS_DATABASE = 15;

/** A database by its name and address. */
interface ScratchDatabase {
  database: string;
  url: string;
}

/** What one service needs. */
export interface ServiceStore extends ScratchDatabase {
  redisUrl: string;
}

export interface Scratch {
  bare: ScratchDatabase;
  service: ScratchDatabase;
  redisUrl: string;
  /** For a second service beside the first. */
  openSecondStore(): Promise<ServiceStore>;
  postmaster: number;
  versions: { postgres: string; redis: string };
  /** Cumulative CPU of Redis in microseconds. */
  redisCpu(): Promise<number>;
  /** `vacuum (analyze)` of the databases, so that autovacuum does not run in a measured round. */
  vacuum(): Promise<void>;
}

/** Throws an error that names the variable when Postgres or Redis does not answer. */
export async function openScratch(options: Options, cleanup: Cleanup): Promise<Scratch> {
  const redis = await openRedis(options.redisUrl, cleanup);
  const admin = postgres(options.databaseUrl, { max: 1, connect_timeout: 5, onnotice: () => {} });
  cleanup.later('close Postgres', () => admin.end({ timeout: 5 }));
  const [facts] = await admin`select pg_backend_pid() as pid, current_setting('server_version') as version`.catch(
    (error: Error) => {
      throw new Error(`no Postgres at DATABASE_URL (${hostOf(options.databaseUrl)}): ${error.message}`);
    },
  );
  const name = `svc_bench_${process.pid}`;
  const service = await createDatabase(admin, options.databaseUrl, name, cleanup);
  const bare = await createDatabase(admin, options.databaseUrl, `${name}_bare`, cleanup);
  const databases = [bare, service];
  return {
    bare,
    service,
    redisUrl: redis.url,
    openSecondStore: async () => {
      const second = await createDatabase(admin, options.databaseUrl, `${name}_${databases.length}`, cleanup);
      databases.push(second);
      return { ...second, redisUrl: (await openRedis(options.redisUrl, cleanup, redis.number - 1)).url };
    },
    postmaster: postmasterOf(facts?.pid),
    versions: { postgres: String(facts?.version).split(' ')[0] as string, redis: redis.version },
    redisCpu: redis.cpu,
    vacuum: async () => {
      for (const { url } of databases) await vacuumDatabase(url);
    },
  };
}

async function createDatabase(
  admin: postgres.Sql,
  url: string,
  database: string,
  cleanup: Cleanup,
): Promise<ScratchDatabase> {
  cleanup.later(`drop database ${database}`, () => admin.unsafe(`drop database if exists "${database}" with (force)`));
  await admin.unsafe(`create database "${database}"`);
  await admin.unsafe(`alter database "${database}" set max_parallel_workers_per_gather = 0`);
  const own = new URL(url);
  own.pathname = `/${database}`;
  return { database, url: own.toString() };
}

async function vacuumDatabase(url: string): Promise<void> {
  const sql = postgres(url, { max: 1, onnotice: () => {} });
  await sql`vacuum (analyze)`;
  await sql.end();
}

/** Takes the highest numbered empty database up to `highest`, which can be emptied afterwards without losing data. */
async function openRedis(url: string, cleanup: Cleanup, highest = HIGHEST_REDIS_DATABASE) {
  const redis = new Redis(url, { lazyConnect: true, maxRetriesPerRequest: 1, retryStrategy: () => null });
  redis.on('error', () => {});
  await redis.connect().catch((error: Error) => {
    throw new Error(`no Redis at REDIS_URL (${hostOf(url)}): ${error.message}`);
  });
  cleanup.later('close Redis', () => redis.quit());
  const number = await emptyDatabase(redis, highest);
  cleanup.later('empty the Redis database', () => redis.flushdb());
  const own = new URL(url);
  own.pathname = `/${number}`;
  const version = /redis_version:(\S+)/.exec(await redis.info('server'))?.[1] ?? 'unknown';
  return { url: own.toString(), number, version, cpu: () => redisCpu(redis) };
}

async function emptyDatabase(redis: Redis, highest: number): Promise<number> {
  for (let number = highest; number > 0; number--) {
    await redis.select(number);
    if ((await redis.dbsize()) === 0) return number;
  }
  throw new Error(`no empty database among 1 to ${highest} of the given Redis`);
}

async function redisCpu(redis: Redis): Promise<number> {
  const seconds = [...(await redis.info('cpu')).matchAll(/used_cpu_(?:sys|user):([\d.]+)/g)];
  return seconds.reduce((sum, [, value]) => sum + Number(value) * 1e6, 0);
}

function hostOf(url: string): string {
  return URL.parse(url)?.host ?? 'not an address';
}
