// The entities that the open streams of all processes subscribe to. Other events are not relayed, so a write without a
// subscriber costs nothing. The subscriptions are in Postgres, and the relay's statement joins them with the events: a
// subscription that is stored before its stream takes a snapshot misses no event after it. A process whose lease expires
// loses its subscriptions, and closes its streams when it notices.
// Failures: subscribing rejects with 503 while Postgres or the broker is unavailable. Contract: decisions#events.
import type { App } from '../app.ts';
import { SerialQueue } from '../runtime/concurrency.ts';
import { type Sql, sql } from '../runtime/sql.ts';
import { detached } from '../runtime/work.ts';

/** Stands for an entity's name: all events of the tenant, including events without an entity. */
export const ALL_ENTITIES = '';

/** The broker channel for the message that a process has new subscriptions. */
const CHANNEL = 'listening';
const LEASE_MS = 60_000;
const RENEW_MS = 10_000;

/**
 * The condition that an event has a subscriber; `event` is its table's alias. Any subscriber in the tenant gets an
 * event without an entity.
 */
export function hasSubscriber(event: Sql): Sql {
  return sql`exists (
    select from platform.stream_subscriptions as l
    where l.tenant_id = ${event}.tenant_id
      and (l.entity in (${event}.entity, ${ALL_ENTITIES}) or ${event}.entity is null))`;
}

/** The condition that any process has a subscription. */
export const HAS_ANY_SUBSCRIBER = sql`exists (select from platform.stream_subscriptions)`;

interface StreamSubscriptionsOptions {
  app: App;
  processId: string;
  /** Called and awaited before the first subscription of the process resolves. */
  onFirst(): Promise<void>;
  /** Called when the lease has expired: events may not have been relayed. */
  onLeaseLost(): void;
}

/** This process's subscriptions, and the tenants in which other processes have some. */
export class StreamSubscriptions {
  /** Subscriptions by tenant and entity. */
  readonly #counts = new Map<string, Map<string, number>>();
  /** Keys (`keyOf`) of the rows in the database. */
  readonly #stored = new Set<string>();
  /** Tenants with subscriptions elsewhere: as last read, and as announced since. */
  #otherTenants: ReadonlySet<string> = new Set();
  readonly #announcedTenants = new Set<string>();
  /** The keys that the next storing statement takes, and its result. */
  readonly #adding = new Set<string>();
  #storing: Promise<void> | undefined;
  /** The read that an announcement has queued. */
  #reading: Promise<void> | undefined;
  #isEnrolled = false;
  /** Whether the database may have rows without a subscription. */
  #hasLeftovers = false;
  #renewedAt = Number.NEGATIVE_INFINITY;
  /** Statements run in order, so the last one decides what is stored. */
  readonly #queue = new SerialQueue();
  readonly #timer: ReturnType<typeof setInterval>;

  private constructor(private readonly options: StreamSubscriptionsOptions) {
    this.#timer = setInterval(() => void this.renew(), RENEW_MS);
  }

  static async open(options: StreamSubscriptionsOptions): Promise<StreamSubscriptions> {
    const subscriptions = new StreamSubscriptions(options);
    await options.app.broker.subscribe(CHANNEL, (message) => {
      const [processId, tenantId = ''] = message.split(' ');
      if (processId !== options.processId) subscriptions.#onAnnounced(tenantId);
    });
    return subscriptions;
  }

  /** Whether any process has a subscription in the tenant, or in any tenant, as far as this process knows. */
  hasSubscribers(tenantId?: string): boolean {
    const sets = [this.#counts, this.#otherTenants, this.#announcedTenants];
    return sets.some((set) => (tenantId === undefined ? set.size > 0 : set.has(tenantId)));
  }

  /** Whether this process has a subscription to the entity. */
  hasLocalSubscribers(tenantId: string, entity: string): boolean {
    const counts = this.#counts.get(tenantId);
    return counts !== undefined && (counts.has(entity) || counts.has(ALL_ENTITIES));
  }

  /** Whether this process has stored subscriptions, and so could miss events. */
  get isEnrolled(): boolean {
    return this.#isEnrolled;
  }

  /** False when other processes may have ended the lease, so that events may not be relayed. */
  get isLeaseValid(): boolean {
    return !this.#isEnrolled || performance.now() - this.#renewedAt < LEASE_MS;
  }

  /** Adds a subscriber to each of these entities. Every event that commits after it resolves is relayed. */
  async add(tenantId: string, entities: Iterable<string>): Promise<void> {
    const names = [...entities];
    for (const name of names) this.#count(tenantId, name, 1);
    const keys = names.map((name) => keyOf(tenantId, name)).filter((key) => !this.#stored.has(key));
    if (keys.length === 0) return;
    try {
      await this.#storeWithOthers(keys);
    } catch (cause) {
      this.remove(tenantId, names);
      throw cause;
    }
  }

  /** Removes a subscriber from each of these entities. The rows without a subscription are deleted with the next renewal. */
  remove(tenantId: string, entities: Iterable<string>): void {
    for (const name of entities) this.#count(tenantId, name, -1);
  }

  /** Renews the lease, deletes expired processes, and reads the tenants of the others. */
  async renew(): Promise<void> {
    await this.#attempt(async () => {
      await this.#renew();
      await this.#readOthers();
    });
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#queue.run(() => this.#withdraw());
  }

  #onAnnounced(tenantId: string): void {
    this.#announcedTenants.add(tenantId);
    this.#reading ??= this.#attempt(() => {
      this.#reading = undefined;
      return this.#readOthers();
    });
  }

  async #attempt(work: () => Promise<void>): Promise<void> {
    try {
      await this.#queue.run(work);
    } catch (cause) {
      this.options.app.log.warn('stream subscriptions could not be read or renewed', { cause });
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

  /**
   * One statement stores the subscriptions that all tenants add while another statement runs, so that none waits behind the
   * others.
   */
  #storeWithOthers(keys: readonly string[]): Promise<void> {
    for (const key of keys) this.#adding.add(key);
    this.#storing ??= detached(() =>
      this.#queue.run(() => {
        const added = [...this.#adding];
        this.#adding.clear();
        this.#storing = undefined;
        return this.#store(added);
      }),
    );
    return this.#storing;
  }

  async #store(keys: readonly string[]): Promise<void> {
    const { processId, app } = this.options;
    const missing = keys.filter((key) => !this.#stored.has(key));
    if (missing.length === 0) return;
    const entries = missing.map(tenantAndName);
    const isFirst = !this.#isEnrolled;
    if (isFirst) await this.#enrol();
    const rows = await app.db.rows(sql`
      insert into platform.stream_subscriptions (tenant_id, entity, process_id)
      select e.tenant_id, e.name, p.process_id
      from platform.stream_processes as p
      cross join unnest(${entries.map(([tenantId]) => tenantId)}::uuid[], ${entries.map(([, name]) => name)}::text[])
        as e (tenant_id, name)
      where p.process_id = ${processId}::uuid
      on conflict on constraint stream_subscriptions_pkey do update set entity = excluded.entity
      returning entity`);
    if (rows.length === 0) return this.#onLeaseLost();
    if (isFirst) await this.options.onFirst();
    this.#isEnrolled = true;
    for (const key of missing) this.#stored.add(key);
    const tenants = new Set(entries.map(([tenantId]) => tenantId));
    await Promise.all([...tenants].map((tenantId) => app.broker.publish(CHANNEL, `${processId} ${tenantId}`)));
  }

  /** Stores the process, and deletes the subscriptions of an earlier attempt that failed. */
  async #enrol(): Promise<void> {
    const { processId } = this.options;
    this.#renewedAt = performance.now();
    await this.options.app.db.rows(sql`
      with earlier as (delete from platform.stream_subscriptions where process_id = ${processId}::uuid)
      insert into platform.stream_processes (process_id) values (${processId}::uuid)
      on conflict on constraint stream_processes_pkey do update set heartbeat_at = clock_timestamp()`);
  }

  async #renew(): Promise<void> {
    if (!this.#isEnrolled) return;
    if (this.#counts.size === 0) return this.#withdraw();
    await this.#deleteLeftovers();
    const startedAt = performance.now();
    const rows = await this.options.app.db.rows(sql`
      update platform.stream_processes set heartbeat_at = clock_timestamp()
      where process_id = ${this.options.processId}::uuid
      returning process_id`);
    if (rows.length === 0) return this.#onLeaseLost();
    this.#renewedAt = startedAt;
  }

  async #deleteLeftovers(): Promise<void> {
    if (!this.#hasLeftovers) return;
    this.#hasLeftovers = false;
    for (const key of this.#stored) if (!this.#isSubscribed(key)) this.#stored.delete(key);
    try {
      await this.options.app.db.rows(sql`
        delete from platform.stream_subscriptions
        where process_id = ${this.options.processId}::uuid
          and tenant_id || ' ' || entity <> all(${[...this.#stored]}::text[])`);
    } catch (cause) {
      this.#hasLeftovers = true;
      throw cause;
    }
  }

  #isSubscribed(key: string): boolean {
    const [tenantId, name] = tenantAndName(key);
    return this.#counts.get(tenantId)?.has(name) ?? false;
  }

  async #withdraw(): Promise<void> {
    if (!this.#isEnrolled) return;
    this.#forgetStored();
    await this.options.app.db.rows(sql`
      delete from platform.stream_processes where process_id = ${this.options.processId}::uuid`);
  }

  #onLeaseLost(): void {
    this.#forgetStored();
    this.options.app.log.warn("this process's lease of stream subscriptions has expired; its streams are closed");
    this.options.onLeaseLost();
  }

  #forgetStored(): void {
    this.#isEnrolled = false;
    this.#stored.clear();
  }

  async #readOthers(): Promise<void> {
    const known = [...this.#announcedTenants];
    const rows = await this.options.app.db.rows<{ tenant_id: string }>(sql`
      with expired as (
        delete from platform.stream_processes
        where heartbeat_at < clock_timestamp() - ${LEASE_MS}::int * interval '1 ms'
        returning process_id)
      select distinct l.tenant_id
      from platform.stream_subscriptions as l
      where l.process_id <> ${this.options.processId}::uuid
        and not exists (select from expired where expired.process_id = l.process_id)`);
    this.#otherTenants = new Set(rows.map(({ tenant_id }) => tenant_id));
    for (const tenantId of known) this.#announcedTenants.delete(tenantId);
  }
}

function keyOf(tenantId: string, name: string): string {
  return `${tenantId} ${name}`;
}

function tenantAndName(key: string): [tenantId: string, name: string] {
  const [tenantId = '', name = ''] = key.split(' ');
  return [tenantId, name];
}
