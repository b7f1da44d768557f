// The faults and how often each is injected. `restored` is called once the stopped server is back; for a killed process
// as soon as it is dead, because the other process must continue. Times are milliseconds.
// Contract: decisions#guarantees.
import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import postgres from 'postgres';
import type { Options } from './options.ts';
import type { TestBed } from './test-bed.ts';

export interface Fault {
  kind: string;
  times: number;
  inject(restored: () => void): Promise<void>;
}

/** How long a server stays stopped. */
const DOWN_MS = 500;
/** One in this many kills is of both processes at once, which counts as two. */
const BOTH_EVERY = 10;
const BACKENDS = 4;

export function faults(bed: TestBed, { kills, redis, postgres, backends, outage }: Options): Fault[] {
  const both = Math.floor(kills / BOTH_EVERY / 2);
  return [
    { kind: 'a process is killed', times: kills - 2 * both, inject: (restored) => killOne(bed, restored) },
    { kind: 'all processes are killed', times: both, inject: (restored) => killAll(bed, restored) },
    { kind: 'Redis is emptied', times: redis, inject: (restored) => emptyRedis(bed, restored) },
    { kind: 'Redis is killed', times: redis, inject: (restored) => stopRedis(bed, DOWN_MS, restored) },
    { kind: 'Postgres is stopped at once', times: postgres, inject: (restored) => stopPostgres(bed, restored) },
    { kind: 'backends are terminated', times: backends, inject: (restored) => terminateBackends(bed, restored) },
    {
      kind: `Redis is down for ${outage} s`,
      times: outage > 0 ? 1 : 0,
      inject: (restored) => stopRedis(bed, outage * 1_000, restored),
    },
  ];
}

async function killOne(bed: TestBed, restored: () => void): Promise<void> {
  const i = Math.floor(Math.random() * bed.processes.length);
  await bed.processes[i]?.kill();
  restored();
  await bed.replace(i);
}

async function killAll(bed: TestBed, restored: () => void): Promise<void> {
  await Promise.all(bed.processes.map((child) => child.kill()));
  await bed.replace(0);
  restored();
  await bed.replace(1);
}

async function emptyRedis({ redis }: TestBed, restored: () => void): Promise<void> {
  const client = new Redis(redis.url);
  await client.flushall();
  client.disconnect();
  restored();
}

async function stopRedis({ redis }: TestBed, ms: number, restored: () => void): Promise<void> {
  await redis.kill();
  await delay(ms);
  await redis.start();
  restored();
}

async function stopPostgres({ postgres: server }: TestBed, restored: () => void): Promise<void> {
  await server.stop('immediate');
  await delay(DOWN_MS);
  await server.start();
  restored();
}

async function terminateBackends({ postgres: server }: TestBed, restored: () => void): Promise<void> {
  const sql = postgres(server.url, { max: 1 });
  await sql`
    select pg_terminate_backend(pid) from (
      select pid from pg_stat_activity where application_name like 'tenant-data-service%' order by random() limit ${BACKENDS}
    ) as chosen`;
  await sql.end();
  restored();
}
