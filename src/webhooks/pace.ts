// How many deliveries of a subscription this process has on their way, how many it may have, and when looking
// for more is worth a claim. A subscription starts with one and earns more with each success. While some
// are on their way, claims of more are spaced, so that each takes several; with no room left none is made.
// Times are milliseconds since the epoch. Contract: decisions#deliveries.
import { LIMITS } from '../limits.ts';

/** Between two claims of a subscription that has deliveries on their way. */
const SPACING_MS = 5;

interface Course {
  window: number;
  /** Until their outcomes are written: a claim made before counts them, and would find the less. */
  onTheWay: number;
  /** Those of them that left without a claim and are answered: the next one of their kind need not wait for the writing. */
  answered: number;
  claimedAt: number;
  /** It was to be looked at while there was no room. */
  isMissed: boolean;
}

export class Pace {
  /** Without those that are as if they had never been seen. */
  readonly #courses = new Map<string, Course>();

  /** How many deliveries of it may be on their way. */
  windowOf(subscriptionId: string): number {
    return this.#courses.get(subscriptionId)?.window ?? 1;
  }

  /** When a claim is due: now, later, or, where the answer is null, when one of its deliveries has ended. */
  nextClaimAt(subscriptionId: string, nowMs: number): number | null {
    const course = this.#courses.get(subscriptionId);
    if (course === undefined || course.onTheWay === 0) return nowMs;
    if (course.onTheWay < course.window) return Math.max(nowMs, course.claimedAt + SPACING_MS);
    course.isMissed = true;
    return null;
  }

  /** Takes a place where nothing is on its way. What comes in a burst is claimed together, which is cheaper. */
  hold(subscriptionId: string, nowMs: number): boolean {
    const course = this.#courses.get(subscriptionId);
    if (course !== undefined && course.onTheWay > course.answered) return false;
    this.left(subscriptionId, nowMs);
    return true;
  }

  left(subscriptionId: string, nowMs: number): void {
    const fresh = { window: 1, onTheWay: 0, answered: 0, claimedAt: 0, isMissed: false };
    const course = this.#courses.get(subscriptionId) ?? fresh;
    course.onTheWay++;
    course.claimedAt = nowMs;
    this.#courses.set(subscriptionId, course);
  }

  /** One has been answered: well, and there may be twice as many; badly, and it is back to one. */
  answered(subscriptionId: string, isGood: boolean, isDirect: boolean): void {
    const course = this.#courses.get(subscriptionId);
    if (course === undefined) return;
    course.window = isGood ? Math.min(course.window * 2, LIMITS.webhook.perSubscription) : 1;
    if (isDirect) course.answered++;
  }

  /** One is over and written down, or a place was not used; true when the subscription was to be looked at meanwhile. */
  ended(subscriptionId: string, wasAnswered: boolean): boolean {
    const course = this.#courses.get(subscriptionId);
    if (course === undefined) return false;
    course.onTheWay--;
    if (wasAnswered) course.answered--;
    const { isMissed } = course;
    course.isMissed = false;
    if (course.onTheWay === 0 && course.window === 1) this.#courses.delete(subscriptionId);
    return isMissed;
  }
}
