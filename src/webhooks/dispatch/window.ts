// How many deliveries of a subscription this process has on their way, how many it may have, and when looking
// for more is worth a claim. A subscription starts with one and earns more with each success. While some
// are on their way, claims of more are spaced, so that each takes several; with no room left none is made.
// Times are milliseconds since the epoch. Contract: decisions#deliveries.
import { LIMITS } from '../../limits.ts';

/** Between two claims of a subscription that has deliveries on their way. */
const CLAIM_INTERVAL_MS = 5;

interface Window {
  size: number;
  /** Until their outcomes are written: a claim made before counts them, and would find the less. */
  inFlight: number;
  /** Those of them that left without a claim and are answered: the next one of their kind need not wait for the writing. */
  answered: number;
  claimedAt: number;
  /** It was to be looked at while there was no room. */
  isClaimWanted: boolean;
}

export class InFlightWindows {
  /** Without those that are as if they had never been seen. */
  readonly #windows = new Map<string, Window>();

  /** How many deliveries of it may be on their way. */
  sizeOf(subscriptionId: string): number {
    return this.#windows.get(subscriptionId)?.size ?? 1;
  }

  /** When a claim is due: now, later, or, where the answer is null, when one of its deliveries has ended. */
  nextClaimAt(subscriptionId: string, nowMs: number): number | null {
    const course = this.#windows.get(subscriptionId);
    if (course === undefined || course.inFlight === 0) return nowMs;
    if (course.inFlight < course.size) return Math.max(nowMs, course.claimedAt + CLAIM_INTERVAL_MS);
    course.isClaimWanted = true;
    return null;
  }

  /** Takes a place where nothing is on its way. What comes in a burst is claimed together, which is cheaper. */
  reserve(subscriptionId: string, nowMs: number): boolean {
    const course = this.#windows.get(subscriptionId);
    if (course !== undefined && course.inFlight > course.answered) return false;
    this.started(subscriptionId, nowMs);
    return true;
  }

  started(subscriptionId: string, nowMs: number): void {
    const fresh = { size: 1, inFlight: 0, answered: 0, claimedAt: 0, isClaimWanted: false };
    const course = this.#windows.get(subscriptionId) ?? fresh;
    course.inFlight++;
    course.claimedAt = nowMs;
    this.#windows.set(subscriptionId, course);
  }

  /** One has been answered: well, and there may be twice as many; badly, and it is back to one. */
  answered(subscriptionId: string, isGood: boolean, isInline: boolean): void {
    const course = this.#windows.get(subscriptionId);
    if (course === undefined) return;
    course.size = isGood ? Math.min(course.size * 2, LIMITS.webhook.perSubscription) : 1;
    if (isInline) course.answered++;
  }

  /** One is over and written down, or a place was not used; true when the subscription was to be looked at meanwhile. */
  finished(subscriptionId: string, wasAnswered: boolean): boolean {
    const course = this.#windows.get(subscriptionId);
    if (course === undefined) return false;
    course.inFlight--;
    if (wasAnswered) course.answered--;
    const { isClaimWanted } = course;
    course.isClaimWanted = false;
    if (course.inFlight === 0 && course.size === 1) this.#windows.delete(subscriptionId);
    return isClaimWanted;
  }
}
