// What is broken: a Postgres and a Redis of the run's own, and two processes of the service, with a tenant, an
// entity, a webhook subscription and a key. Retries are quick, so that a run ends soon. Times are milliseconds.
// Fails where the machine lacks the programs of Postgres or Redis.
import postgres from 'postgres';
import {
  type PrivatePostgres,
  type PrivateRedis,
  privatePostgres,
  privateRedis,
} from '../../test/support/private-servers.ts';
import type { Door } from './load.ts';
import { startVictim, type Victim } from './service.ts';

const SECRET = 'secret-of-the-fault-run';

/** What the database says in the end. */
export interface Books {
  /** Changes without a delivery, and deliveries without a change. */
  undelivered: number;
  unfounded: number;
  pending: number;
  failed: number;
}

export interface World {
  door: Door;
  victims: Victim[];
  postgres: PrivatePostgres;
  redis: PrivateRedis;
  /** Starts another process in place of the ith one. */
  replace(i: number): Promise<void>;
  books(): Promise<Books>;
  close(): Promise<void>;
}

export async function openWorld(receiverUrl: string): Promise<World> {
  const [database, redis] = [await privatePostgres(), await privateRedis()];
  if (database === undefined || redis === undefined) throw new Error('this needs the programs of Postgres and Redis');
  const environment = {
    DATABASE_URL: database.url,
    REDIS_URL: redis.url,
    PORT: '0',
    ADMIN_SECRET: SECRET,
    JWT_SECRET: SECRET,
    LOG_LEVEL: 'error',
    SSE_HEARTBEAT_INTERVAL_MS: '1000',
    WEBHOOK_ALLOWED_CIDRS: '127.0.0.1/32',
    WEBHOOK_TIMEOUT_MS: '2000',
    WEBHOOK_RETRY_BASE_MS: '200',
    WEBHOOK_RETRY_FACTOR: '2',
  };
  const victims = [await startVictim(environment), await startVictim(environment)];
  const door = await prepare(victims, receiverUrl);
  return {
    door,
    victims,
    postgres: database,
    redis,
    replace: async (i) => {
      victims[i] = await startVictim(environment);
    },
    books: () => booksOf(database.url),
    close: async () => {
      await Promise.all(victims.map((victim) => victim.kill()));
      await Promise.all([database.remove(), redis.remove()]);
    },
  };
}

async function prepare(victims: readonly Victim[], receiverUrl: string): Promise<Door> {
  const [first] = victims as [Victim];
  const send = async (path: string, body: unknown, headers: Record<string, string>) => {
    const response = await fetch(first.url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body),
    });
    if (response.status !== 201) throw new Error(`${path}: ${response.status} ${await response.text()}`);
    return ((await response.json()) as { data: Record<string, string> }).data;
  };
  const tenant = { slug: 'ledger', name: 'Ledger' };
  const { apiKey = '' } = await send('/api/admin/platform/tenants', tenant, { 'x-admin-secret': SECRET });
  const owner = { 'x-api-key': apiKey };
  const fields = [
    { key: 'mark', type: 'text' },
    { key: 'n', type: 'integer' },
  ];
  await send('/api/entities', { name: 'entry', fields }, owner);
  const event_types = ['record.created', 'record.updated'];
  await send('/api/webhooks/subscriptions', { entity_name: 'entry', event_types, url: receiverUrl }, owner);
  const permissions = { entry: { writer: ['read', 'create', 'update'] } };
  const { id } = await send('/api/apis', { name: 'Load', slug: 'load', roles: ['writer'], permissions }, owner);
  const { key = '' } = await send(`/api/apis/${id}/keys`, { role: 'writer', label: 'load', ttlDays: 1 }, owner);
  const url = (): string => victims[Math.floor(Math.random() * victims.length)]?.url ?? first.url;
  return { url, key, tenant: tenant.slug };
}

async function booksOf(url: string): Promise<Books> {
  const sql = postgres(url, { max: 1 });
  const [books] = await sql`
    with owed as (
      select e.id, count(d.id) as deliveries from platform.events as e
      left join platform.webhook_deliveries as d on d.event_id = e.id
      where e.entity = 'entry'
      group by e.id
    )
    select
      (select count(*)::int from owed where deliveries <> 1) as undelivered,
      (select count(*)::int from platform.webhook_deliveries where event_id not in (select id from owed)) as unfounded,
      (select count(*)::int from platform.webhook_deliveries where status = 'pending') as pending,
      (select count(*)::int from platform.webhook_deliveries where status = 'failed') as failed`;
  await sql.end();
  return books as unknown as Books;
}
