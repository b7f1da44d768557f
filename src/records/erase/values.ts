// Erases the values of a deleted record everywhere, in parts: from waiting rule runs, events, deliveries, kept responses and
// the live stream. Erasing is idempotent, so any process may continue where another has stopped. A second pass follows a minute
// later, because a process may have stored what it had read before the first one, such as the result of a delivery in flight.
// Contract: history#erase.
import type { App } from '../../app.ts';
import { type Erasure, eraseEvents, eraseStreamed } from '../../events/erasure.ts';
import { sql } from '../../runtime/sql.ts';
import { eraseAnswers } from '../write/idempotency.ts';
import { eraseDeliveries, eraseRuns } from './copies.ts';

/** Seconds until another process may take over, and until the second pass begins. */
export const LEASE_S = 10;
const AGAIN_S = 60;

/** One pass over everything that an erasure has to erase; it can be interrupted and continued. */
export class ErasingPass {
  readonly #parts: AsyncGenerator<void>;
  #renewedAt = performance.now();

  /** The process must have just taken the lease. */
  constructor(
    private readonly app: App,
    private readonly erasure: Erasure,
  ) {
    this.#parts = partsOf(app, erasure);
  }

  /**
   * Erases at least a part. Resolves to false when it stops before the end: at `until`, a time of `performance.now()`, or by
   * the signal.
   */
  async eraseUntil(until: number, signal?: AbortSignal): Promise<boolean> {
    while ((await this.#parts.next()).done !== true) {
      if (performance.now() - this.#renewedAt >= (LEASE_S * 1_000) / 4) {
        this.#renewedAt = performance.now();
        await postpone(this.app, this.erasure, LEASE_S);
      }
      if (signal?.aborted === true || performance.now() > until) return false;
    }
    return true;
  }
}

/** Each step of the generator erases a part. */
async function* partsOf(app: App, erasure: Erasure): AsyncGenerator<void> {
  const parts = [
    () => eraseRuns(app, erasure),
    eraseEvents(app, erasure),
    ...(await eraseDeliveries(app, erasure)),
    ...eraseAnswers(app, erasure),
  ];
  for (const erasePart of parts) while (await erasePart()) yield;
  await eraseStreamed(app, erasure);
  await finish(app, erasure);
}

async function postpone({ db }: App, { tenantId, recordId }: Erasure, seconds: number): Promise<void> {
  await db.rows(sql`
    update platform.erasures set due_at = now() + make_interval(secs => ${seconds}::int)
    where tenant_id = ${tenantId}::uuid and record_id = ${recordId}::uuid`);
}

/** After the first pass, schedules the second; after the second, removes the erasure. */
async function finish({ db }: App, { tenantId, recordId }: Erasure): Promise<void> {
  const isOwn = sql`tenant_id = ${tenantId}::uuid and record_id = ${recordId}::uuid`;
  await db.rows(sql`
    with ended as (
      delete from platform.erasures
      where ${isOwn} and is_swept and at < now() - make_interval(secs => ${AGAIN_S}::int)
    )
    update platform.erasures set is_swept = true, due_at = now() + make_interval(secs => ${AGAIN_S}::int)
    where ${isOwn} and not is_swept`);
}
