// Stores the results of attempts. Results that arrive within GATHER_MS, or while a statement runs, are stored in one statement, each
// only under its own claim: after a lease has expired, the result of the next claim counts. The body is stored with the first result;
// if the process dies before that, the body is rendered from the event again. While the database is unavailable, results wait in
// memory; a delivery whose lease expires is claimed and sent again (at least once). The log of attempts is a column of the delivery,
// so it costs no further write. Retry delays are milliseconds, multiplied by a factor each time, with a jitter of 20 %.
// Contract: interface#webhooks, decisions#configuration, decisions#deliveries.
import { setTimeout as delay } from 'node:timers/promises';
import type { App } from '../../app.ts';
import { LIMITS } from '../../limits.ts';
import { GENERIC_PLANS, inputRows, type Sql, sql, type Tx } from '../../runtime/sql.ts';
import { detached } from '../../runtime/work.ts';
import type { AttemptResult } from './attempt-result.ts';
import type { ClaimedDelivery } from './claim.ts';
import type { HealthLog } from './health.ts';
import { IS_PENDING } from './pending.ts';

const { attemptsKept } = LIMITS.webhook;
const GATHER_MS = 5;
const BATCH_SIZE = 500;
const OVERDUE = 'given up: the last retry was due 24 hours ago';
/** The interval between two attempts to store results while the database is unavailable. */
const STORE_RETRY_MS = 250;

/** A delivery whose last retry is given up. */
export type OverdueDelivery = Pick<ClaimedDelivery, 'subscriptionId' | 'tenantId' | 'id'> & { claimId: string | null };

/** A stored result, and the subscription whose next delivery no longer has to wait. */
interface StoredResult {
  tenant_id: string;
  status: AttemptResult['state'];
  released_subscription_id: string | null;
}

export class ResultWriter {
  #queue: { result: AttemptResult; done: () => void }[] = [];
  #isWriting = false;

  /** `onReleased` is called for each subscription with a delivery that had to wait for one of the stored results. */
  constructor(
    private readonly app: App,
    private readonly health: HealthLog,
    private readonly stopping: AbortSignal,
    private readonly onReleased: (subscriptionId: string) => void,
  ) {}

  /** Resolves when the result is stored, or dropped because the process is stopping. */
  write(result: AttemptResult): Promise<void> {
    return new Promise((done) => {
      this.#queue.push({ result, done });
      // A statement stores the results of many tenants.
      if (!this.#isWriting) void detached(() => this.#drain());
    });
  }

  /** Stores that the deliveries have failed without another attempt. Resolves to their number. */
  async giveUp(overdue: readonly OverdueDelivery[]): Promise<number> {
    const rows = overdue.map(({ subscriptionId, tenantId, id, claimId }) => [
      subscriptionId,
      tenantId,
      id,
      claimId,
      'failed',
      0,
      null,
      OVERDUE,
      0,
      null,
      null,
    ]);
    const { released, count } = await storeRows(this.app, rows, async () => undefined);
    for (const id of released) this.onReleased(id);
    return count;
  }

  async #drain(): Promise<void> {
    this.#isWriting = true;
    await delay(GATHER_MS);
    while (this.#queue.length > 0) {
      const batch = this.#queue.splice(0, BATCH_SIZE);
      if (await this.#tryStore(batch.map(({ result }) => result))) for (const { done } of batch) done();
      else this.#queue.unshift(...batch);
    }
    this.#isWriting = false;
  }

  /** False when the batch must be tried again. */
  async #tryStore(results: readonly AttemptResult[]): Promise<boolean> {
    try {
      let afterCommit = (): void => undefined;
      const { released } = await storeRows(this.app, rowsOf(results), async (tx) => {
        afterCommit = await this.health.store(tx, results);
      });
      for (const id of released) this.onReleased(id);
      afterCommit();
      return true;
    } catch (error) {
      this.app.log.warn('delivery results are not stored yet', { count: results.length, error });
      if (this.stopping.aborted) return true;
      await delay(STORE_RETRY_MS);
      return false;
    }
  }
}

function rowsOf(results: readonly AttemptResult[]): unknown[][] {
  return results.map((result) => {
    const { delivery, state, status, error, retryMs } = result;
    const { subscriptionId, tenantId, id, claimId, isBodyStored, body } = delivery;
    const outcome = state === 'aborted' ? ['pending', 0] : [state, 1];
    const stored = isBodyStored ? null : body;
    return [subscriptionId, tenantId, id, claimId, ...outcome, status, error, retryMs, stored, attemptOf(result)];
  });
}

/** The attempt as the delivery keeps it; null when there was none. */
function attemptOf({ state, status, error, responseText, startedAtMs, durationMs }: AttemptResult): string | null {
  if (state === 'aborted' || startedAtMs === undefined) return null;
  return JSON.stringify([[startedAtMs, Math.round(durationMs ?? 0), status, error, responseText ?? null]]);
}

/** Stores results and counts the deliveries that have ended. `more` runs in the same transaction. */
async function storeRows(
  app: App,
  rows: readonly (readonly unknown[])[],
  more: (tx: Tx) => Promise<void>,
): Promise<{ released: string[]; count: number }> {
  const stored = await app.db.begin(async (tx) => {
    await tx.rows(sql`select ${GENERIC_PLANS} as plans`);
    const results = await tx.rows<StoredResult>(resultStatement(rows));
    await more(tx);
    return results;
  });
  for (const result of stored) countEnded(app, result);
  return { released: [...new Set(stored.flatMap((row) => row.released_subscription_id ?? []))], count: stored.length };
}

/** The only place that counts deliveries: every delivery ends here, once, under its claim. */
function countEnded(app: App, { tenant_id: tenantId, status }: StoredResult): void {
  if (status === 'pending') return;
  const counts = app.counters.of(tenantId);
  counts.deliveries += 1;
  if (status === 'failed') counts.failedDeliveries += 1;
}

function resultStatement(rows: readonly (readonly unknown[])[]): Sql {
  return sql`
    with result (subscription_id, tenant_id, id, claim_id, status, attempts, http_status, error, retry_ms, body,
      attempt) as (
      ${inputRows(['uuid', 'uuid', 'uuid', 'uuid', 'text', 'int', 'int', 'text', 'bigint', 'text', 'text'], rows)}
    ), stored as (
      update platform.webhook_deliveries as d
      set status = r.status,
        attempt_count = d.attempt_count + r.attempts,
        http_status = case when r.attempts = 0 then d.http_status else r.http_status end,
        error = case when r.attempts = 0 and r.status = 'pending' then coalesce(r.error, d.error) else r.error end,
        attempts = case
          when r.attempt is null then d.attempts
          when d.attempts is null then r.attempt::jsonb
          when jsonb_array_length(d.attempts) >= ${attemptsKept}::int then d.attempts - 0 || r.attempt::jsonb
          else d.attempts || r.attempt::jsonb
        end,
        claim_id = null,
        body = coalesce(r.body, d.body),
        next_at = now() + r.retry_ms * interval '1 ms',
        completed_at = case when r.status = 'pending' then null else now() end
      from result as r
      where d.subscription_id = r.subscription_id and d.tenant_id = r.tenant_id and d.id = r.id
        and d.claim_id is not distinct from r.claim_id and ${IS_PENDING}
      returning d.id, d.subscription_id, d.tenant_id, d.record_id, d.status
    ), next as (
      select n.id, n.subscription_id, n.tenant_id, s.id as stored_id
      from stored as s
      cross join lateral (
        select n.* from platform.webhook_deliveries as n
        where n.subscription_id = s.subscription_id and n.tenant_id = s.tenant_id and n.record_id = s.record_id
          and n.status = 'pending' and n.id <> s.id
        order by n.event_seq
        limit 1
      ) as n
      where s.status <> 'pending' and n.claim_id is null and n.attempt_count = n.attempts_before
    ), releasable as (
      -- The deliveries of a subscription that is being deleted are locked until that ends.
      select n.* from next as n
      cross join lateral (
        select from platform.webhook_subscriptions as s where s.id = n.subscription_id for key share skip locked
      ) as s
    ), released as (
      -- Rows that look due are included: another transaction may be postponing them.
      update platform.webhook_deliveries as d set next_at = now()
      from releasable as n
      where d.subscription_id = n.subscription_id and d.tenant_id = n.tenant_id and d.id = n.id and ${IS_PENDING}
        and d.claim_id is null
      returning 1
    )
    select s.tenant_id, s.status, n.subscription_id as released_subscription_id
    from stored as s
    left join releasable as n on n.stored_id = s.id`;
}
