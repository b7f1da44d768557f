// Calls that hold much in memory: responses of large records, and bulk calls that change them. Few run in a process at once,
// and a tenant has at most half of them; the others wait without a database connection. A call does not know beforehand
// that it is large: it gets a place once it holds `LIMITS.largeCalls.bytesFrom` bytes, and begins again if it has to wait for one.
// It keeps the place until its response is built. Small calls pass without noticing.
// Failures: 503 when too many wait, or for too long. Contract: neighbours#byte-budgets, neighbours#fair-shares.
import { ServiceError } from '../errors.ts';
import { LIMITS } from '../limits.ts';
import { Semaphore } from './concurrency.ts';
import { currentWork, type Work } from './work.ts';

const { running: slots, waitingMax: shareWaitingMax, waitMs } = LIMITS.largeCalls;
const places = new Semaphore({ name: 'large-calls', slots, shareWaitingMax, waitMs });

/** The call is large and has to wait for a place (`waitForPlace`) before it begins again. Nothing of it has been done. */
export class PlaceNeeded extends ServiceError {
  constructor() {
    const message = 'too many large requests at once; try later, or ask for less at once';
    super('SERVICE_UNAVAILABLE', message, { headers: { 'retry-after': '2' } });
  }
}

/** The call holds so many bytes. Throws `PlaceNeeded` when they are many and no place is free. */
export function holdBytes(work: Work, bytes: number): void {
  if (bytes < LIMITS.largeCalls.bytesFrom || !needsPlace(work)) return;
  const leave = places.tryEnter(work);
  if (leave === null) throw new PlaceNeeded();
  keep(work, leave);
}

/** Resolves when the current call has a place. Rejects with 503 when too many wait, or for too long. */
export async function waitForPlace(): Promise<void> {
  const work = currentWork();
  if (needsPlace(work)) keep(work, await places.enter(work));
}

/** Only calls that a client waits for: background work has queues of its own. */
function needsPlace({ call }: Work): boolean {
  return call !== undefined && call.leave === undefined && !call.hasEnded;
}

/** The call may have ended, or got a place, while it waited for this one. */
function keep(work: Work, leave: () => void): void {
  if (work.call === undefined || !needsPlace(work)) leave();
  else work.call.leave = leave;
}
