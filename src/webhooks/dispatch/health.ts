// The health of subscriptions: whether the last attempt of each succeeded, since when all attempts have failed, and the last error.
// Failures and the first success after them are stored with their results; further successes are stored at intervals only, so a
// healthy subscription costs nothing. A receiver that answers 410, or fails for days, makes its subscription inactive.
// Times are milliseconds. Contract: decisions#health-of-subscriptions.
import type { App } from '../../app.ts';
import { LIMITS } from '../../limits.ts';
import { inputRows, sql, type Tx } from '../../runtime/sql.ts';
import { type AttemptResult, GONE } from './attempt-result.ts';
import { Disabling } from './disabling.ts';

/** The interval at which one process stores a subscription's successes. */
const SUCCESS_MS = 10_000;
const SUBSCRIPTIONS_KNOWN = 10_000;

interface Summary {
  tenantId: string;
  hasSucceeded: boolean;
  hasFailed: boolean;
  error: string | null;
  isGone: boolean;
}

/** A subscription whose state was stored. */
interface Noted {
  subscription_id: string;
  was_failing: boolean;
  is_failing: boolean;
  failing_ms: number;
}

export class HealthLog {
  /** When successes were last stored, by subscription; none while it is failing. */
  readonly #notedAt = new Map<string, number>();
  #turnedFailing = 0;
  #turnedOk = 0;
  readonly #disabling: Disabling;

  constructor(private readonly app: App) {
    this.#disabling = new Disabling(app);
  }

  registerMetrics(): void {
    const { metrics } = this.app;
    metrics.counter(
      'svc_webhook_failing_total',
      'Times that a webhook subscription began to fail.',
      () => this.#turnedFailing,
    );
    metrics.counter(
      'svc_webhook_recovered_total',
      'Times that a failing subscription worked again.',
      () => this.#turnedOk,
    );
    metrics.counter('svc_webhook_disabled_total', 'Webhook subscriptions disabled.', () => this.#disabling.count);
  }

  /** Stores the state of subscriptions, in the transaction of the results. Resolves to a function to call after the commit. */
  async store(tx: Tx, results: readonly AttemptResult[]): Promise<() => void> {
    const summaries = this.#due(results);
    if (summaries.size === 0) return () => undefined;
    // In one order, so that two processes do not wait for each other.
    const rows = [...summaries]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([id, { hasSucceeded, hasFailed, error }]) => [id, hasSucceeded, hasFailed, error]);
    const noted = await tx.rows<Noted>(sql`
      with input (id, has_succeeded, has_failed, error) as (
        ${inputRows(['uuid', 'boolean', 'boolean', 'text'], rows)}
      ), existing as (
        -- What is stored of one that is being deleted would stay.
        select i.* from input as i
        join platform.webhook_subscriptions as s on s.id = i.id
        order by i.id
        for key share of s skip locked
      ), before as (
        select h.subscription_id, h.failing_since from platform.webhook_health as h join input as i on i.id = h.subscription_id
      ), stored as (
        insert into platform.webhook_health as h (subscription_id, failing_since, last_success_at, last_failure_at, last_error)
        select i.id, case when not i.has_succeeded then now() end, case when i.has_succeeded then now() end,
          case when i.has_failed then now() end, i.error
        from existing as i
        on conflict (subscription_id) do update set
          failing_since = case when excluded.failing_since is not null then coalesce(h.failing_since, excluded.failing_since) end,
          last_success_at = coalesce(excluded.last_success_at, h.last_success_at),
          last_failure_at = coalesce(excluded.last_failure_at, h.last_failure_at),
          last_error = coalesce(excluded.last_error, h.last_error)
        returning h.subscription_id, h.failing_since
      )
      select s.subscription_id, s.failing_since is not null as is_failing, b.failing_since is not null as was_failing,
        coalesce(extract(epoch from now() - s.failing_since) * 1000, 0)::float8 as failing_ms
      from stored as s
      left join before as b on b.subscription_id = s.subscription_id`);
    return () => this.#onStored(noted, summaries);
  }

  /** Resolves when no subscription is being disabled any more. */
  stop(): Promise<void> {
    return this.#disabling.stop();
  }

  /** The changes to store, by subscription. */
  #due(results: readonly AttemptResult[]): Map<string, Summary> {
    const summaries = new Map<string, Summary>();
    for (const { state, error, status, delivery, isUnsent } of results) {
      if (state === 'aborted' || isUnsent === true) continue;
      const known = summaries.get(delivery.subscriptionId);
      const { tenantId } = delivery;
      const summary = known ?? { tenantId, hasSucceeded: false, hasFailed: false, error: null, isGone: false };
      if (known === undefined) summaries.set(delivery.subscriptionId, summary);
      if (state === 'delivered') summary.hasSucceeded = true;
      else summary.hasFailed = true;
      summary.error = error ?? summary.error;
      summary.isGone ||= status === GONE;
    }
    const before = Date.now() - SUCCESS_MS;
    for (const [id, { hasFailed }] of summaries) {
      if (!hasFailed && (this.#notedAt.get(id) ?? 0) > before) summaries.delete(id);
    }
    return summaries;
  }

  #onStored(noted: readonly Noted[], summaries: ReadonlyMap<string, Summary>): void {
    if (this.#notedAt.size > SUBSCRIPTIONS_KNOWN) this.#notedAt.clear();
    for (const {
      subscription_id: id,
      was_failing: wasFailing,
      is_failing: isFailing,
      failing_ms: failingMs,
    } of noted) {
      const { tenantId, error, isGone } = summaries.get(id) as Summary;
      if (isFailing) this.#notedAt.delete(id);
      else this.#notedAt.set(id, Date.now());
      if (isFailing !== wasFailing) this.#onTurned(id, isFailing, error);
      const reason = isGone ? 'the receiver answered 410 Gone' : reasonAfter(isFailing ? failingMs : 0);
      const failedForMs = isGone ? 0 : LIMITS.webhook.disabledAfterMs;
      if (reason !== null) this.#disabling.add(tenantId, id, { reason, failedForMs });
    }
  }

  #onTurned(subscriptionId: string, isFailing: boolean, error: string | null): void {
    if (isFailing) {
      this.#turnedFailing++;
      this.app.log.warn('a webhook subscription is failing', { subscription: subscriptionId, reason: error });
    } else {
      this.#turnedOk++;
      this.app.log.info('a webhook subscription works again', { subscription: subscriptionId });
    }
  }
}

function reasonAfter(failingMs: number): string | null {
  const { disabledAfterMs } = LIMITS.webhook;
  if (failingMs < disabledAfterMs) return null;
  return `every attempt has failed for ${Math.round(disabledAfterMs / 86_400_000)} days`;
}
