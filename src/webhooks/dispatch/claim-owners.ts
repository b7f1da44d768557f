// Finds out which process holds a claim: the id of a claim names its process (owned-ids.ts). The claims of a process that has no
// connection any more are released, so a healthy receiver does not wait until the leases of a dead process end. A process counts as
// dead when it is missing in two reads. After an outage of the database it must be missing in all reads for a while, because processes
// may take that long to reconnect. Deliveries that were in flight are sent again (at least once).
// Contract: decisions#deliveries, decisions#guarantees.
import type { App } from '../../app.ts';
import { isOfNone } from '../../runtime/owned-ids.ts';
import { sql } from '../../runtime/sql.ts';
import { startWorker, type Worker } from '../../runtime/worker.ts';
import { IS_PENDING } from './pending.ts';

const CHECK_MS = 500;
/** How long processes may take to reconnect after an outage: the longest pause of a worker, and some time to connect. */
const RECONNECT_MS = 20_000;

/** `onReleased` is called for each subscription with a delivery whose claim was released. */
export function startReleasingClaims(app: App, onReleased: (subscriptionId: string) => void): Worker {
  const owners = new ClaimOwners(app);
  const once = async (): Promise<number> => {
    const released = await owners.releaseDead();
    for (const id of new Set(released)) onReleased(id);
    return 0;
  };
  return startWorker({ name: 'webhook claims', once, pollMs: CHECK_MS, log: app.log });
}

export class ClaimOwners {
  /** The connected processes, as last read. */
  #connected: readonly string[] | undefined;
  /** The processes that were alive when claims were last released. */
  #checked: ReadonlySet<string> | undefined;
  /** The time until which a missing process may still reconnect. */
  #patientUntil = 0;

  constructor(private readonly app: App) {}

  /** Resolves to the subscriptions of the deliveries released. */
  async releaseDead(): Promise<string[]> {
    const alive = await this.#alive();
    if (alive === undefined) return [];
    if (this.#checked !== undefined && [...this.#checked].every((id) => alive.has(id))) {
      this.#checked = alive;
      return [];
    }
    const released = await this.#release([...alive]);
    this.#checked = alive;
    return released;
  }

  /** The processes that are or may be alive; undefined when that is not known. */
  async #alive(): Promise<ReadonlySet<string> | undefined> {
    const { db, config } = this.app;
    // The embedded database has one process at a time: any other process was an earlier one.
    if (config.databaseUrl === null) return this.#checked ?? new Set([db.id]);
    let connected: string[];
    try {
      connected = await db.connectedIds();
    } catch (error) {
      this.#patientUntil = performance.now() + RECONNECT_MS;
      throw error;
    }
    // A server that does not show this process does not show the others.
    if (!connected.includes(db.id)) return undefined;
    const before = this.#connected;
    this.#connected = connected;
    if (before === undefined || performance.now() < this.#patientUntil) return undefined;
    return new Set([...connected, ...before]);
  }

  async #release(alive: readonly string[]): Promise<string[]> {
    const rows = await this.app.db.rows<{ subscription_id: string }>(sql`
      with dead as materialized (
        select d.subscription_id, d.tenant_id, d.id from platform.webhook_deliveries as d
        where d.claim_id is not null and d.next_at > now() and ${IS_PENDING}
          and ${isOfNone(sql`d.claim_id`, alive)}
        for update skip locked
      )
      update platform.webhook_deliveries as d set claim_id = null, next_at = now()
      from dead as c
      where d.subscription_id = c.subscription_id and d.tenant_id = c.tenant_id and d.id = c.id
      returning d.subscription_id`);
    if (rows.length > 0) this.app.log.warn('webhook claims of a dead process released', { deliveries: rows.length });
    return rows.map((row) => row.subscription_id);
  }
}
