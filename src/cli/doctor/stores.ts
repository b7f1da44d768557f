// Postgres and Redis as the service would find them: reachable, recent enough, with the required features, and with room for its
// connections. Only reads; an embedded installation has neither.
// Times are milliseconds.
import { readdirSync } from 'node:fs';
import type { Redis } from 'ioredis';
import type { Sql } from 'postgres';
import type { Config } from '../../config.ts';
import { type Finding, fault, note, ok, skipped } from './finding.ts';

const CONNECT_S = 5;
const POSTGRES_MIN = 15;
const REDIS_MIN = 7;
/** The most connections that a process opens, see "Many processes". */
const CONNECTIONS_OF_PROCESS = 24;
/** Connections to keep free for other programs and for the superuser. */
const CONNECTIONS_SPARE = 10;
const SQL_DIRECTORY = new URL('../../../sql/platform/', import.meta.url);

export async function checkStores(config: Config): Promise<Finding[]> {
  return [...(await postgres(config)), ...(await redis(config))];
}

async function postgres({ databaseUrl, workers }: Config): Promise<Finding[]> {
  if (databaseUrl === null) return [skipped('postgres', 'the database is embedded')];
  const { default: connect } = await import('postgres');
  const sql = connect(databaseUrl, { max: 1, connect_timeout: CONNECT_S, onnotice: () => undefined });
  try {
    const [server] = await sql<{ version: number; max: number; used: number; skew: number }[]>`
      select current_setting('server_version_num')::int / 10000 as version,
        current_setting('max_connections')::int as max,
        (select count(*)::int from pg_stat_activity where backend_type = 'client backend') as used,
        extract(epoch from clock_timestamp())::float8 * 1000 as skew`;
    if (server === undefined) return [fault('postgres', 'Postgres answers nothing', 'look at its log')];
    return [
      ok('postgres', 'Postgres can be reached'),
      server.version >= POSTGRES_MIN
        ? ok('postgres-version', `Postgres ${server.version}`)
        : fault('postgres-version', `Postgres ${server.version} is too old`, `upgrade to ${POSTGRES_MIN} or newer`),
      connections(server.max, workers),
      await vector(sql),
      await migrations(sql),
    ];
  } catch (error) {
    return [fault('postgres', `Postgres: ${storeReason(error)}`, cureOf(error))];
  } finally {
    await sql.end({ timeout: 1 });
  }
}

function connections(max: number, workers: number): Finding {
  const needed = workers * CONNECTIONS_OF_PROCESS + CONNECTIONS_SPARE;
  if (max >= needed) return ok('connections', `Postgres takes ${max} connections`);
  const cure = `set max_connections to ${needed} or more, for each machine that runs the service, or lower WORKERS`;
  return fault('connections', `Postgres takes ${max} connections; ${workers} processes open up to ${needed}`, cure);
}

async function vector(sql: Sql): Promise<Finding> {
  const found = await sql`select from pg_available_extensions where name = 'vector'`;
  if (found.length > 0) return ok('pgvector', 'pgvector is there');
  return note(
    'pgvector',
    'Postgres has no pgvector: documents are stored without embeddings',
    'install postgresql-NN-pgvector',
  );
}

async function migrations(sql: Sql): Promise<Finding> {
  const [known] = await sql`select to_regclass('platform.migrations') is not null as exists`;
  if (!known?.exists) return ok('migrations', 'the database is new; the first start sets it up');
  const applied = (await sql<{ name: string }[]>`select name from platform.migrations`).map(({ name }) => name);
  const own = readdirSync(SQL_DIRECTORY).filter((name) => /^\d{4}_.*\.sql$/.test(name));
  const pending = own.filter((name) => !applied.includes(name));
  const strange = applied.filter((name) => !name.startsWith('tenant/') && !own.includes(name));
  if (strange.length > 0) {
    const cure = 'install that version here: an older one must not write to it';
    return fault('migrations', `the database is of a newer version: it has ${strange.join(', ')}`, cure);
  }
  if (pending.length === 0) return ok('migrations', 'the database is up to date');
  return note(
    'migrations',
    `${pending.length} migrations wait: ${pending.join(', ')}`,
    'start the service: it applies them',
  );
}

function storeReason(error: unknown): string {
  const { code, message } = error as { code?: string; message?: string };
  return `${message ?? error}${code === undefined || message?.includes(code) ? '' : ` (${code})`}`;
}

function cureOf(error: unknown): string {
  const code = String((error as { code?: string }).code);
  if (/^28/.test(code)) return 'check user and password in DATABASE_URL, and pg_hba.conf';
  if (code === '3D000') return 'create the database named in DATABASE_URL';
  if (code === '53300') return 'raise max_connections, or end other clients';
  return 'see that Postgres runs, and check host and port in DATABASE_URL';
}

async function redis({ redisUrl }: Config): Promise<Finding[]> {
  if (redisUrl === null) return [skipped('redis', 'the broker is in the process')];
  const { Redis } = await import('ioredis');
  const client = new Redis(redisUrl, {
    lazyConnect: true,
    connectTimeout: CONNECT_S * 1_000,
    maxRetriesPerRequest: 0,
    retryStrategy: () => null,
  });
  // Ignored here, because failures reject the calls below.
  client.on('error', () => undefined);
  try {
    await client.connect();
    const info = await client.info();
    return [ok('redis', 'Redis can be reached'), redisVersion(info), eviction(await policyOf(client, info))];
  } catch (error) {
    const cure = 'see that Redis runs, and check host, port and password in REDIS_URL';
    return [fault('redis', `Redis: ${storeReason(error)}`, cure)];
  } finally {
    client.disconnect();
  }
}

function redisVersion(info: string): Finding {
  const version = /^redis_version:(\S+)/m.exec(info)?.[1] ?? '0';
  if (Number.parseInt(version, 10) >= REDIS_MIN) return ok('redis-version', `Redis ${version}`);
  return fault('redis-version', `Redis ${version} is too old`, `upgrade to ${REDIS_MIN} or newer, or to Valkey`);
}

async function policyOf(client: Redis, info: string): Promise<string> {
  return (
    /^maxmemory_policy:(\S+)/m.exec(info)?.[1] ??
    ((await client.config('GET', 'maxmemory-policy')) as string[])[1] ??
    ''
  );
}

function eviction(policy: string): Finding {
  if (policy === 'noeviction') return ok('eviction', 'Redis keeps what it is given');
  const cure = 'set maxmemory-policy to noeviction, and give Redis enough memory';
  return fault(
    'eviction',
    `Redis throws keys away when it is full (${policy}): limits and live events would be lost`,
    cure,
  );
}
