// What an attempt means for its delivery: delivered, to be retried, or failed for good. Retry delays are milliseconds,
// multiplied by a factor each time, with a jitter of 20 %. A receiver that answers 410 wants no retry.
// Contract: interface#webhooks, decisions#configuration, decisions#health-of-subscriptions.
import type { Config } from '../../config.ts';
import type { PostResult } from '../transport/http-post.ts';
import type { ClaimedDelivery } from './claim.ts';

const JITTER = 0.2;
const RETRY_DELAY_MAX_MS = 30 * 86_400_000;
/** The status of a receiver that wants no more requests. */
export const GONE = 410;

export interface AttemptResult extends PostResult {
  delivery: ClaimedDelivery;
  /** `aborted` (by a shutdown, or because it is unknown what to send) is no attempt: the claim is released. */
  state: 'delivered' | 'failed' | 'pending' | 'aborted';
  /** The delay until the next attempt of a pending delivery. */
  retryMs: number;
  /** When the attempt began, since the epoch, and how long it took. */
  startedAtMs?: number;
  durationMs?: number;
  /** Nothing was sent, for a reason that says nothing about the receiver. */
  isUnsent?: boolean;
}

/** The delivery's state after an attempt; `isFinal` rules out a retry. */
export function resultOf(
  config: Config,
  delivery: ClaimedDelivery,
  outcome: PostResult & { isFinal?: boolean; isUnsent?: boolean },
  random = Math.random(),
): AttemptResult {
  const { status, error, responseText = null, isUnsent = false } = outcome;
  const result = { delivery, status, error, responseText, isUnsent };
  if (error === null) return { ...result, state: 'delivered', retryMs: 0 };
  const isFinal = outcome.isFinal === true || status === GONE;
  if (isFinal || delivery.attemptsSinceReset >= config.webhook.maxRetries)
    return { ...result, state: 'failed', retryMs: 0 };
  // A stale connection counts as an attempt, but the next attempt need not wait.
  const retryMs = outcome.isStale === true ? 0 : retryDelayMs(config, delivery.attemptsSinceReset + 1, random);
  return { ...result, state: 'pending', retryMs };
}

/** The delay before retry `n`, 1 for the first; `random` is 0 to 1. */
export function retryDelayMs({ webhook }: Config, n: number, random: number): number {
  const ideal = webhook.retryBaseMs * webhook.retryFactor ** (n - 1);
  return Math.round(Math.min(ideal, RETRY_DELAY_MAX_MS) * (1 - JITTER + 2 * JITTER * random));
}
