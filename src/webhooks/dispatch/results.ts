// Results of attempts. Those that arrive within GATHER_MS, or while a statement runs, are stored in one statement, each
// only under its own claim: after a lease has expired, the result of the next claim counts. The body is stored with the
// first result; if the process dies before that, the body is rendered from the event again. While the database is
// unavailable, results wait in memory; a delivery whose lease expires is claimed and sent again (at least once).
// Retry delays are milliseconds, multiplied by a factor each time, with a jitter of 20 %.
// Contract: interface#webhooks, decisions#configuration, decisions#deliveries.
import { setTimeout as delay } from 'node:timers/promises';
import type { App } from '../../app.ts';
import type { Config } from '../../config.ts';
import { GENERIC_PLANS, inputRows, type Sql, sql } from '../../runtime/sql.ts';
import { detached } from '../../runtime/work.ts';
import type { PostResult } from '../transport/http-post.ts';
import type { ClaimedDelivery } from './claim.ts';
import { IS_PENDING } from './pending.ts';

const JITTER = 0.2;
const RETRY_DELAY_MAX_MS = 30 * 86_400_000;
const GATHER_MS = 5;
const BATCH_SIZE = 500;
/** The interval between two attempts to store results while the database is unavailable. */
const STORE_RETRY_MS = 250;

export interface AttemptResult extends PostResult {
  delivery: ClaimedDelivery;
  /** `aborted`, by a shutdown, does not count as an attempt: the claim is released. */
  state: 'delivered' | 'failed' | 'pending' | 'aborted';
  /** Until the next attempt of a pending delivery. */
  retryMs: number;
}

/** The delivery's state after an attempt; `isFinal` rules out a retry. */
export function resultOf(
  config: Config,
  delivery: ClaimedDelivery,
  outcome: PostResult & { isFinal?: boolean },
  random = Math.random(),
): AttemptResult {
  const { status, error } = outcome;
  if (error === null) return { delivery, status, error, state: 'delivered', retryMs: 0 };
  const isLast = outcome.isFinal === true || delivery.attemptsSinceReset >= config.webhook.maxRetries;
  if (isLast) return { delivery, status, error, state: 'failed', retryMs: 0 };
  // A stale connection counts as an attempt, but the next attempt need not wait.
  const retryMs = outcome.isStale === true ? 0 : retryDelayMs(config, delivery.attemptsSinceReset + 1, random);
  return { delivery, status, error, state: 'pending', retryMs };
}

/** The delay before retry `n`, 1 for the first; `random` is 0 to 1. */
export function retryDelayMs({ webhook }: Config, n: number, random: number): number {
  const ideal = webhook.retryBaseMs * webhook.retryFactor ** (n - 1);
  return Math.round(Math.min(ideal, RETRY_DELAY_MAX_MS) * (1 - JITTER + 2 * JITTER * random));
}

/** A stored result, and the subscription whose next delivery need not wait any longer. */
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
      for (const id of await storeResults(this.app, results)) this.onReleased(id);
      return true;
    } catch (error) {
      this.app.log.warn('delivery results are not stored yet', { count: results.length, error });
      if (this.stopping.aborted) return true;
      await delay(STORE_RETRY_MS);
      return false;
    }
  }
}

/** Stores the results and counts the deliveries that have ended. Resolves to the subscriptions with a released delivery. */
async function storeResults(app: App, results: readonly AttemptResult[]): Promise<string[]> {
  const rows = results.map(({ delivery, state, status, error, retryMs }) => {
    const { subscriptionId, id, claimId, isBodyStored, body } = delivery;
    const outcome = state === 'aborted' ? ['pending', 0] : [state, 1];
    return [subscriptionId, id, claimId, ...outcome, status, error, retryMs, isBodyStored ? null : body];
  });
  const stored = await app.db.begin(async (tx) => {
    await tx.rows(sql`select ${GENERIC_PLANS} as plans`);
    return tx.rows<StoredResult>(resultStatement(rows));
  });
  for (const result of stored) countEnded(app, result);
  return [...new Set(stored.flatMap(({ released_subscription_id: id }) => id ?? []))];
}

/** The only place that counts deliveries: all of them end here, each once, under its claim. */
function countEnded(app: App, { tenant_id: tenantId, status }: StoredResult): void {
  if (status === 'pending') return;
  const counts = app.counters.of(tenantId);
  counts.deliveries += 1;
  if (status === 'failed') counts.failedDeliveries += 1;
}

function resultStatement(rows: readonly (readonly unknown[])[]): Sql {
  return sql`
    with result (subscription_id, id, claim_id, status, attempts, http_status, error, retry_ms, body) as (
      ${inputRows(['uuid', 'uuid', 'uuid', 'text', 'int', 'int', 'text', 'bigint', 'text'], rows)}
    ), stored as (
      update platform.webhook_deliveries as d
      set status = r.status,
        attempt_count = d.attempt_count + r.attempts,
        http_status = case when r.attempts = 0 then d.http_status else r.http_status end,
        error = case when r.attempts = 0 then d.error else r.error end,
        claim_id = null,
        body = coalesce(d.body, r.body),
        next_at = now() + r.retry_ms * interval '1 ms',
        completed_at = case when r.status = 'pending' then null else now() end
      from result as r
      where d.subscription_id = r.subscription_id and d.id = r.id and d.claim_id is not distinct from r.claim_id and ${IS_PENDING}
      returning d.id, d.subscription_id, d.tenant_id, d.record_id, d.status
    ), next as (
      select n.id, n.subscription_id, s.id as stored_id
      from stored as s
      cross join lateral (
        select n.* from platform.webhook_deliveries as n
        where n.subscription_id = s.subscription_id and n.record_id = s.record_id and n.status = 'pending' and n.id <> s.id
        order by n.event_seq
        limit 1
      ) as n
      where s.status <> 'pending' and n.claim_id is null and n.attempt_count = n.attempts_before
    ), released as (
      -- Rows that look due are included: another transaction may be postponing them.
      update platform.webhook_deliveries as d set next_at = now()
      from next as n
      where d.subscription_id = n.subscription_id and d.id = n.id and ${IS_PENDING} and d.claim_id is null
      returning 1
    )
    select s.tenant_id, s.status, n.subscription_id as released_subscription_id
    from stored as s
    left join next as n on n.stored_id = s.id`;
}
