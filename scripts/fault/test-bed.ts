// The test bed: a private Postgres and Redis, and two service processes with a tenant, an entity, a webhook subscription
// and a key. Retries are short, to keep a run short. Times are milliseconds. Fails on a machine without the server
// programs of Postgres or Redis.
import postgres from 'postgres';
import {
  type PrivatePostgres,
  type PrivateRedis,
  privatePostgres,
  privateRedis,
} from '../../test/support/private-servers.ts';
import type { Endpoint } from './load.ts';
import { type ServiceProcess, startService } from './service-process.ts';

const SECRET = 'secret-of-the-fault-run';

/** Deliveries in the database. */
export interface DeliveryCounts {
  /** Changes without a delivery, and deliveries without a change. */
  missing: number;
  orphaned: number;
  pending: number;
  failed: number;
}

export interface TestBed {
  endpoint: Endpoint;
  processes: ServiceProcess[];
  postgres: PrivatePostgres;
  redis: PrivateRedis;
  /** Replaces process `i` with a new one. */
  replace(i: number): Promise<void>;
  countDeliveries(): Promise<DeliveryCounts>;
  close(): Promise<void>;
}

export async function openTestBed(receiverUrl: string): Promise<TestBed> {
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
  const processes = [await startService(environment), await startService(environment)];
  const endpoint = await prepare(processes, receiverUrl);
  return {
    endpoint,
    processes,
    postgres: database,
    redis,
    replace: async (i) => {
      processes[i] = await startService(environment);
    },
    countDeliveries: () => countDeliveries(database.url),
    close: async () => {
      await Promise.all(processes.map((child) => child.kill()));
      await Promise.all([database.remove(), redis.remove()]);
    },
  };
}

async function prepare(processes: readonly ServiceProcess[], receiverUrl: string): Promise<Endpoint> {
  const [first] = processes as [ServiceProcess];
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
  const url = (): string => processes[Math.floor(Math.random() * processes.length)]?.url ?? first.url;
  return { url, key, tenant: tenant.slug };
}

async function countDeliveries(url: string): Promise<DeliveryCounts> {
  const sql = postgres(url, { max: 1 });
  const [counts] = await sql`
    with expected as (
      select e.id, count(d.id) as deliveries from platform.events as e
      left join platform.webhook_deliveries as d on d.event_id = e.id
      where e.entity = 'entry'
      group by e.id
    )
    select
      (select count(*)::int from expected where deliveries <> 1) as missing,
      (select count(*)::int from platform.webhook_deliveries where event_id not in (select id from expected)) as orphaned,
      (select count(*)::int from platform.webhook_deliveries where status = 'pending') as pending,
      (select count(*)::int from platform.webhook_deliveries where status = 'failed') as failed`;
  await sql.end();
  return counts as unknown as DeliveryCounts;
}
