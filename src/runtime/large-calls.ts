// Limits calls that hold much memory: large bodies, responses of large records, and bulk calls that change large records. A process
// runs few at once, at most half of them for one tenant; the others wait without a database connection. A call does not know
// beforehand that it is large. It gets a place once it holds `LIMITS.largeCalls.bytesFrom` bytes, and starts again if it had to wait
// for one. It keeps the place until its response is built, and garbage is kept small meanwhile. Small calls need no place, unless the
// calls of a tenant hold much together: a client may send thousands at once. Failures: 503 when too many calls wait, or for too long;
// 429 for a tenant that does not read its responses. Contract: neighbours#byte-budgets, neighbours#fair-shares.
import { ServiceError } from '../errors.ts';
import { LIMITS } from '../limits.ts';
import { Semaphore } from './concurrency.ts';
import { keepGarbageSmall } from './garbage.ts';
import { SharedBudget } from './shared-budget.ts';
import { tooMuchUnread, unreadResponses } from './unread-responses.ts';
import { currentWork, type Work } from './work.ts';

const { bytesFrom, countedFrom, smallBytes, running: slots, waitingMax: shareWaitingMax, waitMs } = LIMITS.largeCalls;
/** The bytes that calls without a place hold. */
const small = new SharedBudget(smallBytes);
const places = new Semaphore({ name: 'large-calls', slots, shareWaitingMax, waitMs });

/** The call is large, and must wait for a place (`waitForPlace`) before it starts again. It has not changed anything. */
export class PlaceNeeded extends ServiceError {
  constructor() {
    const message = 'too many large requests at once; try later, or ask for less at once';
    super('SERVICE_UNAVAILABLE', message, { headers: { 'retry-after': '2' } });
  }
}

/**
 * Notes how many bytes the call holds. If they are many, throws `PlaceNeeded` when no place is free, and a 429 when its tenant has
 * left too much of other responses unread.
 */
export function holdBytes(work: Work, bytes: number): void {
  if (bytes < countedFrom || !needsPlace(work)) return;
  if (bytes < bytesFrom && holdsSmall(work, bytes)) return;
  if (unreadResponses.isFull(work.share)) throw tooMuchUnread();
  const leave = places.tryEnter(work);
  if (leave === null) throw new PlaceNeeded();
  keep(work, leave);
}

/** Like `holdBytes`, for the current call, which waits at this point when it needs a place. */
export async function holdBytesWaiting(bytes: number): Promise<void> {
  try {
    holdBytes(currentWork(), bytes);
  } catch (error) {
    if (!(error instanceof PlaceNeeded)) throw error;
    await waitForPlace();
  }
}

/** False when the share's calls without a place would hold too much together. */
function holdsSmall({ call, share }: Work, bytes: number): boolean {
  if (call === undefined || bytes <= call.held) return true;
  // Counted in steps, so that few of many small additions change the budget.
  const held = Math.ceil(bytes / countedFrom) * countedFrom;
  const { giveBack, held: before } = call;
  if (!small.take(share, held - before)) return false;
  call.held = held;
  call.giveBack = () => {
    giveBack?.();
    small.give(share, held - before);
  };
  return true;
}

/** Resolves when the current call has a place. Rejects with 503 when too many wait, or for too long. */
export async function waitForPlace(): Promise<void> {
  const work = currentWork();
  if (!needsPlace(work)) return;
  keep(work, await places.enter(work));
  if (unreadResponses.isFull(work.share)) throw tooMuchUnread();
}

/** Runs work that changes nothing before it needs a place. Runs it again if it had to wait for a place. */
export async function withPlace<T>(run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (error) {
    if (!(error instanceof PlaceNeeded)) throw error;
    await waitForPlace();
    return run();
  }
}

/** Only calls that a client waits for: background work has queues of its own. */
function needsPlace({ call }: Work): boolean {
  return call !== undefined && call.leave === undefined && !call.hasEnded;
}

/** The call may have ended, or got a place, while it waited for this one. */
function keep(work: Work, leave: () => void): void {
  if (work.call === undefined || !needsPlace(work)) {
    leave();
    return;
  }
  const collected = keepGarbageSmall();
  work.call.leave = () => {
    collected();
    leave();
  };
}
