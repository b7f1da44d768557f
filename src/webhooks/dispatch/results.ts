// Writing down how attempts ended, many in one statement, and only while the claim still stands: who
// took over a lease that had run out decides. What was sent is kept with the first outcome, not by the claim:
// with a process that dies in between it is lost, and made anew from the event. Delays are milliseconds, grown
// by a factor and spread by a fifth either way.
// Contract: interface#webhooks, decisions#configuration.
import type { App } from '../../app.ts';
import type { Config } from '../../config.ts';
import { GENERIC_PLANS, inputRows, type Sql, sql } from '../../runtime/sql.ts';
import type { PostResult } from '../transport/http-post.ts';
import type { ClaimedDelivery } from './claim.ts';
import { IS_PENDING } from './pending.ts';

const JITTER = 0.2;

/** How a delivery stands after an attempt. */
export interface AttemptResult extends PostResult {
  delivery: ClaimedDelivery;
  status: number | null;
  /** `given back` was not tried and counts as no attempt. */
  state: 'delivered' | 'failed' | 'pending' | 'given back';
  /** Until the next attempt, when it is pending. */
  retryMs: number;
}

/** What an attempt's outcome makes of the delivery; a refused address or a vanished event is not tried again. */
export function resultOf(
  config: Config,
  delivery: ClaimedDelivery,
  outcome: PostResult & { isFinal?: boolean },
  random = Math.random(),
): AttemptResult {
  const { status, error } = outcome;
  if (error === null) return { delivery, status, error, state: 'delivered', retryMs: 0 };
  const { maxRetries } = config.webhook;
  const isLast = outcome.isFinal === true || delivery.attemptsSinceReset >= maxRetries;
  if (isLast) return { delivery, status, error, state: 'failed', retryMs: 0 };
  // Counted like every POST, but there is nothing that the next one would have to wait for.
  const retryMs = outcome.isStale === true ? 0 : retryDelayMs(config, delivery.attemptsSinceReset + 1, random);
  return { delivery, status, error, state: 'pending', retryMs };
}

/** The wait before retry `n`, 1 for the first; `random` is 0 to 1. */
export function retryDelayMs({ webhook }: Config, n: number, random: number): number {
  const ideal = webhook.retryBaseMs * webhook.retryFactor ** (n - 1);
  return Math.round(Math.min(ideal, 30 * 86_400_000) * (1 - JITTER + 2 * JITTER * random));
}

/** Writes the endings down; resolves to the subscriptions of which something has waited for one of these deliveries. */
export async function saveResults(app: App, endings: readonly AttemptResult[]): Promise<string[]> {
  const outcomes = endings.map(({ delivery, state, status, error, retryMs }) => {
    const isTried = state !== 'given back';
    const { subscriptionId, id, claimId, isBodyStored, body } = delivery;
    const standing = [isTried ? state : 'pending', isTried ? 1 : 0, status, error, retryMs];
    return [subscriptionId, id, claimId, ...standing, isBodyStored ? null : body];
  });
  return app.db.begin(async (tx) => {
    await tx.rows(sql`select ${GENERIC_PLANS} as plans`);
    const roused = await tx.rows<{ subscription_id: string }>(writingOf(outcomes));
    return roused.map(({ subscription_id: id }) => id);
  });
}

function writingOf(outcomes: readonly (readonly unknown[])[]): Sql {
  return sql`
    with outcome (subscription_id, id, claim_id, status, attempts, http_status, error, retry_ms, body) as (
      ${inputRows(['uuid', 'uuid', 'uuid', 'text', 'int', 'int', 'text', 'bigint', 'text'], outcomes)}
    ), ended as (
      update platform.webhook_deliveries as d
      set status = o.status,
        attempt_count = d.attempt_count + o.attempts,
        http_status = case when o.attempts = 0 then d.http_status else o.http_status end,
        error = case when o.attempts = 0 then d.error else o.error end,
        claim_id = null,
        body = coalesce(d.body, o.body),
        next_at = now() + o.retry_ms * interval '1 ms',
        completed_at = case when o.status = 'pending' then null else now() end
      from outcome as o
      where d.subscription_id = o.subscription_id and d.id = o.id and d.claim_id is not distinct from o.claim_id and ${IS_PENDING}
      returning d.id, d.subscription_id, d.record_id, d.status
    ), next as (
      select n.id, n.subscription_id
      from ended as f
      cross join lateral (
        select n.* from platform.webhook_deliveries as n
        where n.subscription_id = f.subscription_id and n.record_id = f.record_id and n.status = 'pending' and n.id <> f.id
        order by n.event_seq
        limit 1
      ) as n
      where f.status <> 'pending' and n.claim_id is null and n.attempt_count = n.attempts_before
    ), roused as (
      -- Also what is due, as far as can be seen here: it may be being put aside at this moment.
      update platform.webhook_deliveries as d set next_at = now()
      from next as n
      where d.subscription_id = n.subscription_id and d.id = n.id and ${IS_PENDING} and d.claim_id is null
      returning 1
    )
    select distinct subscription_id from next`;
}
