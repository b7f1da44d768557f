// The window of each subscription: how many of its deliveries this process may have in flight. A window starts at its minimum, doubles
// with each success and is reset by a failure. Even at the minimum, a receiver that hangs on some requests still gets others. Claims
// of a subscription that has deliveries in flight are spaced, so that each claim takes several deliveries. While the window is full,
// no claim is made.
// Times are milliseconds since the epoch. Contract: decisions#deliveries.
import { LIMITS } from '../../limits.ts';

const { windowMin, perSubscription } = LIMITS.webhook;

/** The interval between two claims of a subscription that has deliveries in flight. */
const CLAIM_INTERVAL_MS = 5;

interface Window {
  size: number;
  /** Deliveries started whose result is not stored yet. A claim counts them too, and returns fewer rows. */
  inFlight: number;
  /**
   * The inline deliveries in flight that have a response already: the next inline delivery does not wait until their results are
   * stored.
   */
  answered: number;
  claimedAt: number;
  /** A claim was wanted while the window was full. */
  isClaimWanted: boolean;
}

export class InFlightWindows {
  /** By subscription. Windows in the initial state are deleted. */
  readonly #windows = new Map<string, Window>();

  sizeOf(subscriptionId: string): number {
    return this.#windows.get(subscriptionId)?.size ?? windowMin;
  }

  /** When to claim; null while the window is full, in which case `finished` returns true later. */
  nextClaimAt(subscriptionId: string, nowMs: number): number | null {
    const window = this.#windows.get(subscriptionId);
    if (window === undefined || window.inFlight === 0) return nowMs;
    if (window.inFlight < window.size) return Math.max(nowMs, window.claimedAt + CLAIM_INTERVAL_MS);
    window.isClaimWanted = true;
    return null;
  }

  /**
   * Starts an inline delivery, but only if nothing is in flight and nothing waits for the window: it is cheaper to claim a burst of
   * deliveries together.
   */
  reserve(subscriptionId: string, nowMs: number): boolean {
    const window = this.#windows.get(subscriptionId);
    if (window !== undefined && (window.isClaimWanted || window.inFlight > window.answered)) return false;
    this.started(subscriptionId, nowMs);
    return true;
  }

  started(subscriptionId: string, nowMs: number): void {
    const initial = { size: windowMin, inFlight: 0, answered: 0, claimedAt: 0, isClaimWanted: false };
    const window = this.#windows.get(subscriptionId) ?? initial;
    window.inFlight++;
    window.claimedAt = nowMs;
    this.#windows.set(subscriptionId, window);
  }

  /** The attempt has a response or has failed. */
  answered(subscriptionId: string, isSuccess: boolean, isInline: boolean): void {
    const window = this.#windows.get(subscriptionId);
    if (window === undefined) return;
    window.size = isSuccess ? Math.min(window.size * 2, perSubscription) : windowMin;
    if (isInline) window.answered++;
  }

  /** The result is stored, or a reservation was not used. True when a claim was wanted while the window was full. */
  finished(subscriptionId: string, wasAnswered: boolean): boolean {
    const window = this.#windows.get(subscriptionId);
    if (window === undefined) return false;
    window.inFlight--;
    if (wasAnswered) window.answered--;
    const { isClaimWanted } = window;
    window.isClaimWanted = false;
    if (window.inFlight === 0 && window.size === windowMin) this.#windows.delete(subscriptionId);
    return isClaimWanted;
  }
}
