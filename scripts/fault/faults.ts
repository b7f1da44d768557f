// The faults, each with how often it strikes. `struck` is called once what was taken away is back, or, for a killed
// process, as soon as it is dead: the others have to carry on. Times are milliseconds.
// Contract: decisions#guarantees.
import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import postgres from 'postgres';
import type { Options } from './options.ts';
import type { World } from './world.ts';

export interface Fault {
  kind: string;
  times: number;
  strike(struck: () => void): Promise<void>;
}

const AWAY_MS = 500;
/** Every so many kills both processes die at once. */
const BOTH_EVERY = 10;
const BACKENDS = 4;

export function faults(world: World, { kills, redis, postgres, backends, outage }: Options): Fault[] {
  const both = Math.floor(kills / BOTH_EVERY / 2);
  return [
    { kind: 'a process is killed', times: kills - 2 * both, strike: (struck) => killOne(world, struck) },
    { kind: 'all processes are killed', times: both, strike: (struck) => killAll(world, struck) },
    { kind: 'Redis is emptied', times: redis, strike: (struck) => emptyRedis(world, struck) },
    { kind: 'Redis is killed', times: redis, strike: (struck) => awayRedis(world, AWAY_MS, struck) },
    { kind: 'Postgres is stopped at once', times: postgres, strike: (struck) => stopPostgres(world, struck) },
    { kind: 'backends are terminated', times: backends, strike: (struck) => endBackends(world, struck) },
    {
      kind: `Redis is away for ${outage} s`,
      times: outage > 0 ? 1 : 0,
      strike: (struck) => awayRedis(world, outage * 1_000, struck),
    },
  ];
}

async function killOne(world: World, struck: () => void): Promise<void> {
  const i = Math.floor(Math.random() * world.victims.length);
  await world.victims[i]?.kill();
  struck();
  await world.replace(i);
}

async function killAll(world: World, struck: () => void): Promise<void> {
  await Promise.all(world.victims.map((victim) => victim.kill()));
  await world.replace(0);
  struck();
  await world.replace(1);
}

async function emptyRedis({ redis }: World, struck: () => void): Promise<void> {
  const client = new Redis(redis.url);
  await client.flushall();
  client.disconnect();
  struck();
}

async function awayRedis({ redis }: World, ms: number, struck: () => void): Promise<void> {
  await redis.kill();
  await delay(ms);
  await redis.start();
  struck();
}

async function stopPostgres({ postgres: server }: World, struck: () => void): Promise<void> {
  await server.stop('immediate');
  await delay(AWAY_MS);
  await server.start();
  struck();
}

async function endBackends({ postgres: server }: World, struck: () => void): Promise<void> {
  const sql = postgres(server.url, { max: 1 });
  await sql`
    select pg_terminate_backend(pid) from (
      select pid from pg_stat_activity where application_name like 'tenant-data-service%' order by random() limit ${BACKENDS}
    ) as chosen`;
  await sql.end();
  struck();
}
