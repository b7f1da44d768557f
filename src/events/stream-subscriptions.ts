// What the open streams of all processes listen to: what nobody listens to is not relayed, and costs a writer
// nothing. It stands in Postgres, where the relay reads it in the very statement that reads the events; so
// what is written down before a stream takes its snapshot holds for everything that the stream has to show.
// A process that has not renewed its part for long is taken for dead; one that was not dead is told of it.
// Failures: beginning to listen fails with 503 while database or broker are away. Contract: decisions#events.
import type { App } from '../app.ts';
import { SerialQueue } from '../runtime/concurrency.ts';
import { type Sql, sql } from '../runtime/sql.ts';

/** Stands for all entities of a tenant, and for what is of none. */
export const ALL_ENTITIES = '';

const CHANNEL = 'listening';
const TTL_MS = 60_000;
const RENEW_MS = 10_000;

/** What an event has to fulfil to be listened to, for an alias of platform.events. An event of no entity is for all. */
export function hasSubscriber(event: Sql): Sql {
  return sql`exists (
    select from platform.stream_subscriptions as l
    where l.tenant_id = ${event}.tenant_id
      and (l.entity in (${event}.entity, ${ALL_ENTITIES}) or ${event}.entity is null))`;
}

/** Whether any process listens to anything. */
export const HAS_ANY_SUBSCRIBER = sql`exists (select from platform.stream_subscriptions)`;

export interface StreamSubscriptionsOptions {
  app: App;
  processId: string;
  /** Called, and waited for, before the first stream after a while without any is told that it is connected. */
  onFirst(): Promise<void>;
  /** This process was taken for dead: events may have been left out. */
  onLeaseLost(): void;
}

/** This process's part, and what it knows of the others'. */
export class StreamSubscriptions {
  readonly #app: App;
  readonly #options: StreamSubscriptionsOptions;
  /** How many listeners each entity has, by tenant. */
  readonly #counts = new Map<string, Map<string, number>>();
  /** What stands in the database: keys of `keyOf`. */
  readonly #stored = new Set<string>();
  /** Tenants that others listen to: as it was looked up last, and as was announced since. */
  #others: ReadonlySet<string> = new Set();
  readonly #announced = new Set<string>();
  /** Set while it is still to be looked up what was announced. */
  #looking: Promise<void> | undefined;
  #isEnrolled = false;
  /** Whether the database may name more than is listened to. */
  #hasLeftovers = false;
  #renewedAt = Number.NEGATIVE_INFINITY;
  /** One after the other: what stands in the database is what was written last. */
  readonly #turns = new SerialQueue();
  readonly #timer: ReturnType<typeof setInterval>;

  private constructor(options: StreamSubscriptionsOptions) {
    this.#app = options.app;
    this.#options = options;
    this.#timer = setInterval(() => void this.renew(), RENEW_MS);
  }

  static async open(options: StreamSubscriptionsOptions): Promise<StreamSubscriptions> {
    const listening = new StreamSubscriptions(options);
    await options.app.broker.subscribe(CHANNEL, (message) => {
      const [processId, tenantId = ''] = message.split(' ');
      if (processId !== options.processId) listening.#hear(tenantId);
    });
    return listening;
  }

  /** Whether anybody listens to anything of the tenant, or of any, as far as this process has heard. */
  hasSubscribers(tenantId?: string): boolean {
    const sets = [this.#counts, this.#others, this.#announced];
    return sets.some((set) => (tenantId === undefined ? set.size > 0 : set.has(tenantId)));
  }

  /** Whether this very process listens to the tenant's entity. */
  hasLocalSubscribers(tenantId: string, entity: string): boolean {
    const counts = this.#counts.get(tenantId);
    return counts !== undefined && (counts.has(entity) || counts.has(ALL_ENTITIES));
  }

  /** Whether this process listens to anything; what it is told it may have missed is nothing otherwise. */
  get isEnrolled(): boolean {
    return this.#isEnrolled;
  }

  /** False when this process may have been taken for dead by others: what it hears may have left something out. */
  get isLeaseValid(): boolean {
    return !this.#isEnrolled || performance.now() - this.#renewedAt < TTL_MS;
  }

  /** One more listener of these entities; what is committed after this has resolved is relayed. */
  async add(tenantId: string, entities: Iterable<string>): Promise<void> {
    const names = [...entities];
    for (const name of names) this.#count(tenantId, name, 1);
    try {
      await this.#turns.run(() => this.#store(tenantId, names));
    } catch (cause) {
      this.remove(tenantId, names);
      throw cause;
    }
  }

  /** One listener less. What nobody listens to any more leaves the database a little later. */
  remove(tenantId: string, entities: Iterable<string>): void {
    for (const name of entities) this.#count(tenantId, name, -1);
  }

  /** Says that this process is there, forgets those that have not for long, and looks what the others listen to. */
  async renew(): Promise<void> {
    await this.#attempt(async () => {
      await this.#renew();
      await this.#lookAround();
    });
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#turns.run(() => this.#withdraw());
  }

  #hear(tenantId: string): void {
    this.#announced.add(tenantId);
    this.#looking ??= this.#attempt(() => {
      this.#looking = undefined;
      return this.#lookAround();
    });
  }

  async #attempt(work: () => Promise<void>): Promise<void> {
    try {
      await this.#turns.run(work);
    } catch (cause) {
      this.#app.log.warn('what is listened to could not be looked up or renewed', { cause });
    }
  }

  #count(tenantId: string, name: string, by: 1 | -1): void {
    const counts = this.#counts.get(tenantId) ?? new Map<string, number>();
    const count = (counts.get(name) ?? 0) + by;
    if (count > 0) counts.set(name, count);
    else if (counts.delete(name)) this.#hasLeftovers = true;
    if (counts.size > 0) this.#counts.set(tenantId, counts);
    else this.#counts.delete(tenantId);
  }

  async #store(tenantId: string, names: readonly string[]): Promise<void> {
    const { processId } = this.#options;
    const missing = names.filter((name) => !this.#stored.has(keyOf(tenantId, name)));
    if (missing.length === 0) return;
    const isFirst = !this.#isEnrolled;
    if (isFirst) await this.#enrol();
    const rows = await this.#app.db.rows(sql`
      insert into platform.stream_subscriptions (tenant_id, entity, process_id)
      select ${tenantId}::uuid, e.name, p.process_id
      from platform.stream_processes as p cross join unnest(${missing}::text[]) as e (name)
      where p.process_id = ${processId}::uuid
      on conflict on constraint stream_subscriptions_pkey do update set entity = excluded.entity
      returning entity`);
    if (rows.length === 0) return this.#lose();
    if (isFirst) await this.#options.onFirst();
    this.#isEnrolled = true;
    for (const name of missing) this.#stored.add(keyOf(tenantId, name));
    await this.#app.broker.publish(CHANNEL, `${processId} ${tenantId}`);
  }

  /** Begins with nothing, whatever an earlier attempt has left. */
  async #enrol(): Promise<void> {
    const { processId } = this.#options;
    this.#renewedAt = performance.now();
    await this.#app.db.rows(sql`
      with earlier as (delete from platform.stream_subscriptions where process_id = ${processId}::uuid)
      insert into platform.stream_processes (process_id) values (${processId}::uuid)
      on conflict on constraint stream_processes_pkey do update set heartbeat_at = clock_timestamp()`);
  }

  async #renew(): Promise<void> {
    if (!this.#isEnrolled) return;
    if (this.#counts.size === 0) return this.#withdraw();
    await this.#clear();
    const before = performance.now();
    const rows = await this.#app.db.rows(sql`
      update platform.stream_processes set heartbeat_at = clock_timestamp()
      where process_id = ${this.#options.processId}::uuid
      returning process_id`);
    if (rows.length === 0) return this.#lose();
    this.#renewedAt = before;
  }

  /** Takes out what nobody here listens to any more. */
  async #clear(): Promise<void> {
    if (!this.#hasLeftovers) return;
    this.#hasLeftovers = false;
    for (const key of this.#stored) if (!this.#isWanted(key)) this.#stored.delete(key);
    try {
      await this.#app.db.rows(sql`
        delete from platform.stream_subscriptions
        where process_id = ${this.#options.processId}::uuid
          and tenant_id || ' ' || entity <> all(${[...this.#stored]}::text[])`);
    } catch (cause) {
      this.#hasLeftovers = true;
      throw cause;
    }
  }

  #isWanted(key: string): boolean {
    const [tenantId = '', name = ''] = key.split(' ');
    return this.#counts.get(tenantId)?.has(name) ?? false;
  }

  async #withdraw(): Promise<void> {
    if (!this.#isEnrolled) return;
    this.#forget();
    await this.#app.db.rows(sql`
      delete from platform.stream_processes where process_id = ${this.#options.processId}::uuid`);
  }

  #lose(): void {
    this.#forget();
    this.#app.log.warn('this process was taken for dead; its streams are closed');
    this.#options.onLeaseLost();
  }

  #forget(): void {
    this.#isEnrolled = false;
    this.#stored.clear();
  }

  async #lookAround(): Promise<void> {
    const known = [...this.#announced];
    const rows = await this.#app.db.rows<{ tenant_id: string }>(sql`
      with dead as (
        delete from platform.stream_processes
        where heartbeat_at < clock_timestamp() - ${TTL_MS}::int * interval '1 ms'
        returning process_id)
      select distinct l.tenant_id
      from platform.stream_subscriptions as l
      where l.process_id <> ${this.#options.processId}::uuid
        and not exists (select from dead where dead.process_id = l.process_id)`);
    this.#others = new Set(rows.map(({ tenant_id }) => tenant_id));
    for (const tenantId of known) this.#announced.delete(tenantId);
  }
}

function keyOf(tenantId: string, name: string): string {
  return `${tenantId} ${name}`;
}
