// Makes the deliveries of subscriptions for which changes must be judged first (audience.ts). A writer inserts one row for all of
// them, under the entity's id. Here each change is judged for each subscription, and the row is replaced by a delivery for each one
// that matches. So a writer pays the same for one such subscription as for a thousand, and a change that matches none leaves nothing
// behind. Several processes may judge the same changes: only the process that deletes a row inserts its deliveries. Rows are replaced
// in the order of the changes, one batch of a tenant at a time, so the deliveries of a record keep their order.
// Contract: decisions#webhooks-for-others, neighbours#fair-shares.
import type { App } from '../../app.ts';
import { forgetCatalog, isOlderThan } from '../../entities/catalog.ts';
import { EVERY_ENTITY } from '../../events/entity-change.ts';
import { eventSize, type RecordEventType } from '../../events/event.ts';
import type { CommitNotice } from '../../events/publication.ts';
import { LIMITS } from '../../limits.ts';
import { inputRows, sql } from '../../runtime/sql.ts';
import { forTenant } from '../../runtime/work.ts';
import { tenantById } from '../../tenants/tenants.ts';
import { Judge } from '../audience.ts';
import { type Change, changeOf, type Judging } from './changes.ts';
import { HELD, HELD_MS, type HeldDeliveries } from './held.ts';
import { judgingOf, meantBy } from './judged.ts';

/** The most changes and bytes that one batch judges. */
const BATCH_CHANGES = 1_000;
const BATCH_BYTES = 4_194_304;
/** Ends a batch early, in milliseconds, so that judged changes do not have to wait. */
const BATCH_MS = 500;
const TENANTS_KNOWN = 10_000;
/** Tenants whose changes are judged at once, not counting those whose batch takes longer than BATCH_MS. */
const TENANTS_AT_ONCE = 4;
/**
 * How many batches may take longer beside those. A single change may take half a minute: long texts, and a thousand subscriptions with
 * long conditions. It is judged in pieces (event-loop.ts), so it does not slow other tenants' batches down, but they must not wait for it.
 */
const LONG_AT_ONCE = 32;

/** A change that waits to be judged. */
interface Candidate extends Change {
  id: string;
  type: RecordEventType;
}

/** A subscription that a change matches; held when it cannot be decided whether it matches. */
type Match = [candidateId: string, subscriptionId: string, isHeld: boolean];

export class FanOut {
  readonly #due = new Set<string>();
  /** Tenants without such subscriptions: their transactions cost nothing here. */
  readonly #without = new Set<string>();
  /** The batches that are being judged, by tenant. */
  readonly #running = new Map<string, Promise<void>>();
  /** The tenants among them whose batch takes long. */
  readonly #long = new Set<string>();
  readonly #stopping = new AbortController();
  #invalidations = 0;
  #sweepAt = 0;

  /** `onMade` is called for each subscription that has new deliveries, `wake` when there are changes to judge. */
  constructor(
    private readonly app: App,
    private readonly onMade: (subscriptionId: string, tenantId: string) => void,
    private readonly wake: () => void,
    private readonly held: HeldDeliveries,
  ) {
    app.invalidations.on('webhook', (tenantIds) => this.#onSubscriptionsChanged(tenantIds));
  }

  /** Must be cheap: it is called at every commit. */
  onCommitted({ tenantId, change }: CommitNotice): void {
    if (change === null) return;
    if (change === undefined) {
      if (this.#without.has(tenantId)) return;
    } else if (change.entity.subscribed[change.type]?.includes(change.entity.id) !== true) return;
    this.#due.add(tenantId);
    this.wake();
  }

  /** Starts to judge a batch for each of some tenants. Resolves to 0: each batch that ends, or takes long, wakes the worker. */
  async once(): Promise<number> {
    if (Date.now() >= this.#sweepAt) await this.#sweep();
    for (const tenantId of this.#due) {
      if (this.#running.size - this.#long.size >= TENANTS_AT_ONCE) break;
      if (this.#running.has(tenantId)) continue;
      this.#due.delete(tenantId);
      this.#start(tenantId);
    }
    return 0;
  }

  /** Resolves when no changes are being judged any more; what was not judged still waits. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await Promise.all(this.#running.values());
  }

  #start(tenantId: string): void {
    const longTimer = setTimeout(() => {
      if (this.#long.size >= LONG_AT_ONCE) return;
      this.#long.add(tenantId);
      this.wake();
    }, BATCH_MS);
    const batch = forTenant(tenantId, () => this.#judge(tenantId))
      // Queued behind the other tenants.
      .then((hasMore) => void (hasMore && this.#due.add(tenantId)))
      .catch((error) => {
        if (this.#stopping.signal.aborted) return;
        this.app.log.warn('changes could not be judged for webhooks yet', { tenantId, error });
        setTimeout(() => this.#retry(tenantId), LIMITS.cacheStaleMs);
      })
      .finally(() => {
        clearTimeout(longTimer);
        this.#running.delete(tenantId);
        this.#long.delete(tenantId);
        this.wake();
      });
    this.#running.set(tenantId, batch);
  }

  #onSubscriptionsChanged(tenantIds: readonly string[] | null): void {
    this.#invalidations++;
    if (tenantIds === null) this.#without.clear();
    for (const tenantId of tenantIds ?? []) {
      this.#without.delete(tenantId);
      this.#due.add(tenantId);
    }
    this.wake();
  }

  #retry(tenantId: string): void {
    this.#due.add(tenantId);
    this.wake();
  }

  /** Finds changes that a lost notice or a killed process has left. */
  async #sweep(): Promise<void> {
    const rows = await this.app.db.rows<{ tenant_id: string }>(sql`
      select distinct tenant_id from platform.webhook_subscriptions where is_judged`);
    this.#sweepAt = Date.now() + LIMITS.webhook.sweepMs * (0.9 + Math.random() * 0.2);
    for (const row of rows) this.#due.add(row.tenant_id);
  }

  /** Judges one batch. Resolves to whether more changes wait. */
  async #judge(tenantId: string): Promise<boolean> {
    if (!(await this.#hasSubscriptions(tenantId))) return false;
    const tenant = await tenantById(this.app, tenantId);
    if (tenant === null) return false;
    const { rows: candidates, isAll } = await this.#candidates(tenantId);
    if (candidates.length === 0) return false;
    // Read after the changes, so that every subscription for which a writer inserted a row is among them.
    const subscriptions = await judgingOf(this.app, tenantId);
    let judge = await Judge.of(this.app, tenant);
    if (candidates.some(({ entity_id: id, data }) => isOlderThan(judge.catalog, id, { data: data ?? {} }))) {
      // The entity or a field is newer than this process's copy of the definitions, or the entity is dropped.
      forgetCatalog(this.app, tenant);
      judge = await Judge.of(this.app, tenant);
    }
    const until = performance.now() + BATCH_MS;
    const matches: Match[] = [];
    let judged = 0;
    for (const candidate of candidates) {
      if (judged > 0 && (performance.now() > until || matches.length >= LIMITS.webhook.createdPerStatement)) break;
      matches.push(...(await this.#matchesOf(judge, candidate, subscriptions)));
      judged++;
    }
    await this.#replace(tenantId, candidates.slice(0, judged), matches);
    return judged < candidates.length || !isAll;
  }

  async #hasSubscriptions(tenantId: string): Promise<boolean> {
    const invalidations = this.#invalidations;
    const found = await this.app.db.first(sql`
      select from platform.webhook_subscriptions where tenant_id = ${tenantId}::uuid and is_judged limit 1`);
    if (found !== undefined) return true;
    if (this.#without.size >= TENANTS_KNOWN) this.#without.clear();
    // A subscription that was created meanwhile may have been missed.
    if (this.#invalidations === invalidations) this.#without.add(tenantId);
    return false;
  }

  /** The oldest waiting changes, without the values of changes that no longer fit the batch. */
  async #candidates(tenantId: string): Promise<{ rows: Candidate[]; isAll: boolean }> {
    const found = await this.app.db.rows<Candidate & { is_within: boolean }>(sql`
      with candidate as materialized (
        select d.id, d.subscription_id as entity_id, d.record_id, d.type, d.event_at, d.event_seq
        from (
          select distinct case when s.entity_id = ${EVERY_ENTITY}::uuid then c.entity_id else s.entity_id end as id
          from platform.webhook_subscriptions as s
          left join platform.entity_counts as c
            on s.entity_id = ${EVERY_ENTITY}::uuid and c.tenant_id = s.tenant_id and c.slot = 0
          where s.tenant_id = ${tenantId}::uuid and s.is_judged
        ) as e
        join platform.webhook_deliveries as d on d.subscription_id = e.id and d.status = 'pending'
        where d.tenant_id = ${tenantId}::uuid
        order by d.event_seq
        limit ${BATCH_CHANGES}::int
      ), sized as (
        select c.*, e.version, e.data, e.erased_at, e.created_at, e.updated_at, e.created_by, e.updated_by,
          coalesce(sum(${eventSize(sql`e`)}) over (
            order by c.event_seq rows between unbounded preceding and 1 preceding), 0) < ${BATCH_BYTES}::int as is_within
        from candidate as c
        left join lateral (
          select * from platform.events as e
          where e.seq = c.event_seq and e.at = c.event_at and (e.erased_at is null or c.type = 'record.deleted')
          limit 1
        ) as e on true
      )
      select id, entity_id, record_id, type, event_at, version, erased_at, created_at, updated_at, created_by, updated_by, is_within,
        case when is_within then data end as data
      from sized
      order by event_seq`);
    const rows = found.filter((row) => row.is_within);
    return { rows, isAll: rows.length === found.length && found.length < BATCH_CHANGES };
  }

  /** Replaces the rows that still exist by deliveries for the subscriptions that match. */
  async #replace(tenantId: string, judged: readonly Candidate[], matches: readonly Match[]): Promise<void> {
    const ids = judged.map((row) => [row.entity_id, row.id]);
    const input =
      matches.length === 0
        ? sql`select null::uuid, null::uuid, false where false`
        : inputRows(['uuid', 'uuid', 'boolean'], matches);
    const made = await this.app.db.rows<{ subscription_id: string }>(sql`
      with judged (entity_id, id) as (
        ${inputRows(['uuid', 'uuid'], ids)}
      ), locked as materialized (
        select d.subscription_id, d.id from platform.webhook_deliveries as d
        join judged as j on j.entity_id = d.subscription_id and j.id = d.id and d.tenant_id = ${tenantId}::uuid
        order by d.id
        for update of d
      ), taken as (
        delete from platform.webhook_deliveries as d using locked as l
        where d.subscription_id = l.subscription_id and d.id = l.id and d.tenant_id = ${tenantId}::uuid
        returning d.*
      ), matched (candidate_id, subscription_id, is_held) as (
        ${input}
      )
      insert into platform.webhook_deliveries (subscription_id, tenant_id, event_id, event_seq, event_at, record_id, type, trace,
        next_at, error)
      select s.id, t.tenant_id, t.event_id, t.event_seq, t.event_at, t.record_id, t.type, t.trace,
        now() + case when m.is_held then ${HELD_MS}::bigint else 0 end * interval '1 ms', case when m.is_held then ${HELD} end
      from taken as t
      join matched as m on m.candidate_id = t.id
      join platform.webhook_subscriptions as s on s.id = m.subscription_id and s.tenant_id = t.tenant_id
      order by t.event_seq
      returning subscription_id`);
    for (const id of new Set(made.map((row) => row.subscription_id))) this.onMade(id, tenantId);
  }

  /** The subscriptions that the change matches. */
  async #matchesOf(judge: Judge, candidate: Candidate, subscriptions: readonly Judging[]): Promise<Match[]> {
    const entity = judge.catalog.byId.get(candidate.entity_id);
    const change = changeOf(candidate);
    if (entity === undefined || change === null) return [];
    const meant = await meantBy(judge, subscriptions, entity, candidate.type, change, this.#stopping.signal);
    for (const { id, fault } of meant) if (fault !== null) this.held.noteHeld(id, fault);
    return meant.map(({ id, fault }) => [candidate.id, id, fault !== null]);
  }
}
