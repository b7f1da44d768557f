// Both sides of the rows about events: the bare handler, and the service started as a user starts it, with higher
// connection limits and permission to call receivers on this machine. Each row uses its own tenant, so that data left by
// one row does not affect the next. Times are milliseconds.

import postgres from 'postgres';
import { Api } from '../api.ts';
import { itemTable } from '../bare-store.ts';
import { type Server, startServer } from '../children.ts';
import type { MeteredServer } from '../cpu.ts';
import { item } from '../dataset.ts';
import type { Target } from '../generator.ts';
import type { Workload } from '../measure.ts';
import type { Run } from '../run.ts';
import { createItems, createPeople, createTenant, type ServiceEnv, serviceEnv, startService } from '../service.ts';
import { type Address, until } from './listeners.ts';
import { Receiver } from './receiver.ts';

const CREATES_AT_ONCE = 16;
const VARIANTS = 2_000;
const DRAIN_MS = 120_000;
/** Long, because the query counts as database use of the service. */
const DRAIN_POLL_MS = 100;
const SECRET = 'a secret of the bench';
const EVERY_TYPE = ['record.created', 'record.updated', 'record.deleted'];

/** One side, where records are created. */
export interface Side {
  server: MeteredServer & { port: number };
  address: Address;
  target(body: string): Target;
}

/** A tenant of the service with its keys and people. */
export class Tenant {
  readonly api: Api;

  private constructor(
    readonly fixture: EventFixture,
    readonly slug: string,
    readonly key: string,
    readonly socketKey: string,
    readonly people: readonly string[],
  ) {
    this.api = new Api(fixture.server.port, { key });
  }

  /** Creates a tenant with the entity `items` and an identical entity for each further name. */
  static async make(fixture: EventFixture, slug: string, ...more: string[]): Promise<Tenant> {
    const key = await createTenant(fixture.server.port, fixture.env.ADMIN_SECRET, slug);
    const api = new Api(fixture.server.port, { key });
    const people = await createPeople(api, 1);
    const entities = ['items', ...more];
    for (const name of entities) await createItems(api, name);
    return new Tenant(fixture, slug, key, await issueReadKey(api, entities), people);
  }

  side(entity = 'items'): Side {
    const { server } = this.fixture;
    const { key, socketKey, slug } = this;
    const path = `/api/entities/${entity}/records`;
    const streamPath = `/api/v1/tenants/${slug}/events/stream?entities=${entity}`;
    return {
      server,
      address: { port: server.port, streamPath, firstEvents: 2, key, socketKey, entity },
      target: (body) => ({ method: 'POST', path, body, key }),
    };
  }

  /** `more` are further members, such as a role. */
  async subscribe(entity: string, url: string, types = EVERY_TYPE, more: object = {}): Promise<void> {
    const subscription = { entity_name: entity, event_types: types, url, secret: SECRET, ...more };
    await this.api.call('POST', '/api/webhooks/subscriptions', subscription);
  }
}

export class EventFixture {
  private constructor(
    readonly run: Run,
    readonly env: ServiceEnv,
    readonly receiver: Receiver,
    readonly server: Side['server'],
    readonly bare: Side,
    private readonly sql: postgres.Sql,
    private readonly running: Server,
  ) {}

  static async open(run: Run): Promise<EventFixture> {
    const { scratch, cleanup, directory } = run;
    const receiver = new Receiver(cleanup);
    const bareSql = postgres(scratch.bare.url, { max: 1, onnotice: () => {} });
    await bareSql.unsafe(itemTable('events_w'));
    await bareSql.end();
    const environment = { DATABASE_URL: scratch.bare.url };
    const bare = await startServer('scripts/benchmark/events/bare.ts', environment, `${directory}/events.log`, cleanup);
    const env = eventEnv(run);
    const running = await startService(env, cleanup);
    const server = { pid: running.pid, port: running.port, database: scratch.service.database };
    const sql = postgres(scratch.service.url, { max: 1, onnotice: () => {} });
    cleanup.later('close Postgres', () => sql.end());
    const bareServer = { pid: bare.pid, port: bare.port, database: scratch.bare.database };
    return new EventFixture(run, env, receiver, server, bareSide(bareServer), sql, running);
  }

  /** Resolves when no change waits to be judged, and no delivery is pending. */
  drained(): Promise<void> {
    const pending = async () => {
      const [left] = await this.sql`select exists (
        select from platform.webhook_deliveries as d
        left join platform.webhook_subscriptions as s on s.id = d.subscription_id
        where d.status = 'pending' and coalesce(s.url, '') not like '%/never/%') as some`;
      return left?.some === false;
    };
    return until('the deliveries', pending, DRAIN_MS, DRAIN_POLL_MS);
  }

  /** Replaces the service's process by a new one. */
  async restarted(): Promise<EventFixture> {
    await this.running.stop();
    const running = await startService(this.env, this.run.cleanup);
    const server = { ...this.server, pid: running.pid, port: running.port };
    return new EventFixture(this.run, this.env, this.receiver, server, this.bare, this.sql, running);
  }
}

function eventEnv({ directory, scratch }: Run): ServiceEnv {
  const limits = {
    WEBHOOK_ALLOWED_CIDRS: '127.0.0.0/8',
    WEBHOOK_TIMEOUT_MS: '120000',
    SSE_HEARTBEAT_INTERVAL_MS: '86400000',
    SSE_MAX_CONNECTIONS_PER_TENANT: '10000',
    SSE_MAX_CONNECTIONS_GLOBAL: '10000',
    WS_MAX_CONNECTIONS_PER_TENANT: '10000',
  };
  return { ...serviceEnv(directory, { database: scratch.service.url, redis: scratch.redisUrl }), ...limits };
}

function bareSide(server: Side['server']): Side {
  return {
    server,
    address: { port: server.port, streamPath: '/stream', firstEvents: 1 },
    target: (body) => ({ method: 'POST', path: '/create', body }),
  };
}

async function issueReadKey(api: Api, entities: readonly string[]): Promise<string> {
  const of = <T>(value: T) => Object.fromEntries(entities.map((name) => [name, value]));
  await api.call('POST', '/api/roles', { name: 'listener', permissions: of(['read']) });
  const access = { name: 'Events', slug: 'events', roles: ['listener'], permissions: of({ listener: ['read'] }) };
  const { id } = await api.call<{ id: string }>('POST', '/api/apis', access);
  const request = { role: 'listener', label: 'events', ttlDays: 1 };
  return (await api.call<{ key: string }>('POST', `/api/apis/${id}/keys`, request)).key;
}

/** A record's body with the given title and without the relation. */
export function bodyOf(title: string): string {
  const { owner: _, ...rest } = item(1, VARIANTS, ['']);
  return JSON.stringify({ ...rest, title });
}

/** Creates records, several at once. Throws when one is refused. */
export async function createMany(side: Side, count: number, atOnce = CREATES_AT_ONCE): Promise<void> {
  let left = count;
  const worker = async () => {
    while (left-- > 0) await send(side, side.target(bodyOf(`Item ${left}`)));
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
}

export async function send({ server }: Side, { path, body, key, method }: Target): Promise<void> {
  const headers = { 'content-type': 'application/json', ...(key ? { authorization: `Bearer ${key}` } : {}) };
  const answer = await fetch(`http://127.0.0.1:${server.port}${path}`, { method, headers, body: body as string });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${method} ${path} answers ${answer.status}: ${text.slice(0, 200)}`);
}

/** The workload of creating records; `before` runs before each round. */
export function createWorkload(side: Side, before: () => Promise<void> = async () => {}): Workload {
  return {
    server: side.server,
    targets: async () => {
      await before();
      return Array.from({ length: VARIANTS }, (_, at) => side.target(bodyOf(`Item ${at}`)));
    },
    problem: (data) => ((data as { title?: string }).title ? null : 'not the record created'),
  };
}
