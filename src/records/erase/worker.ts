// Erasures in the background: the rest of an erasure whose call has ended or whose process has died, and the second passes. A
// process works on one erasure per tenant at a time, in slices of time across tenants, so that a record with a hundred thousand
// versions delays no other tenant's erasure. A failing erasure delays no other: it is tried again when its lease has ended.
// Contract: history#erase, neighbours#fair-shares.
import type { App } from '../../app.ts';
import type { Erasure } from '../../events/erasure.ts';
import { LEAST_ID } from '../../runtime/ids.ts';
import { sql } from '../../runtime/sql.ts';
import { inTurn, TenantSlices } from '../../runtime/tenant-slices.ts';
import { startWorker, type Worker } from '../../runtime/worker.ts';
import { ErasingPass, LEASE_S } from './values.ts';

const POLL_MS = 5_000;
/** Tenants whose erasures a process works on at once; each erasure may remember thousands of events that it has found. */
const TENANTS_MAX = 16;

interface RunningErasure {
  erasure: Erasure;
  pass: ErasingPass;
}

export function startErasures(app: App): Worker {
  const erasures = new Erasures(app);
  const once = (signal: AbortSignal): Promise<number> => erasures.once(signal);
  return startWorker({ name: 'erasures', once, pollMs: POLL_MS, log: app.log });
}

export class Erasures {
  /** The running erasure of each tenant. */
  readonly #running = new Map<string, RunningErasure>();
  /** The tenant whose erasure was taken last; tenants take turns in the order of their ids. */
  #latest = LEAST_ID;

  constructor(private readonly app: App) {}

  /** One round: a slice of one erasure of each tenant. Resolves to the number of erasures. */
  async once(signal: AbortSignal): Promise<number> {
    await this.#take();
    const running = [...this.#running.values()];
    const slices = new TenantSlices<RunningErasure>({
      tenantOf: ({ erasure }) => erasure.tenantId,
      keyOf: ({ erasure }) => erasure.recordId,
      serve: (one, until) => this.#goOn(one, until, signal),
    });
    await slices.serve(running);
    return running.length;
  }

  /** Takes the leases of due erasures of further tenants, in turn. */
  async #take(): Promise<void> {
    const taken = await this.app.db.rows<Erasure>(sql`
      update platform.erasures as e set due_at = now() + make_interval(secs => ${LEASE_S}::int)
      from (
        select e.tenant_id, e.record_id from (
          select distinct on (d.tenant_id) d.tenant_id, d.record_id from platform.erasures as d
          where d.due_at <= now() and d.tenant_id <> all(${[...this.#running.keys()]}::uuid[])
          order by d.tenant_id, d.due_at
        ) as first
        join platform.erasures as e on e.tenant_id = first.tenant_id and e.record_id = first.record_id
        where e.due_at <= now()
        order by e.tenant_id <= ${this.#latest}::uuid, e.tenant_id
        limit ${TENANTS_MAX - this.#running.size}::int
        for update of e skip locked
      ) as due
      where e.tenant_id = due.tenant_id and e.record_id = due.record_id
      returning e.tenant_id as "tenantId", e.record_id as "recordId", e.at, e.actor as by, e.seq`);
    for (const erasure of taken) {
      this.#running.set(erasure.tenantId, { erasure, pass: new ErasingPass(this.app, erasure) });
    }
    const tenants = taken.map(({ tenantId }) => tenantId).sort();
    this.#latest = inTurn(tenants, (id) => id, this.#latest).at(-1) ?? this.#latest;
  }

  async #goOn({ erasure, pass }: RunningErasure, until: number, signal: AbortSignal): Promise<void> {
    const { tenantId, recordId } = erasure;
    try {
      if (await pass.eraseUntil(until, signal)) this.#running.delete(tenantId);
    } catch (cause) {
      this.#running.delete(tenantId);
      this.app.log.warn('a record could not be erased yet', { tenantId, recordId, cause });
    }
  }
}
