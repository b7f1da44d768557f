// Who writes, and where: in one statement that commits by itself, or in a transaction. Either way a publication is
// opened for the changes and closed after the commit or the failure.
// Contract: decisions#guarantees.
import type { TenantCaller } from '../../access/caller.ts';
import type { App } from '../../app.ts';
import type { Catalog } from '../../entities/catalog.ts';
import type { EntityChange } from '../../events/entity-change.ts';
import type { Cause } from '../../events/outbox.ts';
import { notifyCommitted, Publication } from '../../events/publication.ts';
import type { Queries, Tx } from '../../runtime/sql.ts';
import { applyQuotas, beginCounted } from '../../usage/tally.ts';
import { isFarFromQuotas, withinWriteRate } from '../../usage/write-quotas.ts';
import { requireRoomForWrites, writeWindowsOf } from '../../usage/write-rate.ts';
import { Evaluator } from '../read/evaluator.ts';

/** How often a write that keeps conflicting with others is attempted before it fails with 409. */
export const MAX_ATTEMPTS = 8;

/**
 * Called before each statement of a batch, after its rows are prepared, and before the batch reads records. Resolves when the
 * earlier batches are written. Rejects if one of them failed, and with `LostRace` if the rows must be prepared again.
 */
export type Turn = (isPrepared: boolean) => Promise<void>;

/** The caller of a write, and its transaction. */
export interface WriteContext {
  app: App;
  caller: TenantCaller;
  /** The transaction to write in; null to commit by itself. */
  tx: Tx | null;
  /**
   * Resolves when the write may begin. A write that is prepared ahead waits only before its statement, since preparing reads no
   * records.
   */
  turn?: Turn;
}

/** A write whose statement or transaction is open. */
export interface OpenWrite extends WriteContext {
  queries: Queries;
  publication: Publication;
}

/** A write in a transaction. The rows it reads are locked, so that they do not change before they are written. */
export type OpenTransaction = OpenWrite & { tx: Tx };

/** A write, and the definitions under which it is made. */
export type Writing = OpenWrite & { catalog: Catalog; evaluator: Evaluator };
export type WritingInTransaction = Writing & { tx: Tx };

export function writingWith<Open extends OpenWrite>(open: Open, catalog: Catalog) {
  return { ...open, catalog, evaluator: new Evaluator(open.queries, catalog) };
}

export function autocommit(app: App, caller: TenantCaller, turn?: Turn): WriteContext {
  return { app, caller, tx: null, ...(turn === undefined ? {} : { turn }) };
}

/** Runs a write that is one statement, of one record if `isSingle`. `write` resolves to null if nothing changed. */
export function inStatement<T>(
  { app, caller }: WriteContext,
  change: EntityChange & { isSingle: boolean },
  write: (open: OpenWrite) => Promise<T>,
): Promise<T> {
  const { tenant } = caller;
  // The quota of deliveries is checked by claims.
  const isSingle = change.isSingle && tenant.quotas.deliveriesPerDay === undefined;
  const room = isFarFromQuotas(tenant);
  return withinWriteRate(app, caller, () =>
    Publication.run(app, causeOf(caller), { ...change, isSingle, room }, (publication) =>
      write({ app, caller, tx: null, queries: app.db, publication }),
    ),
  );
}

/** Runs a write in the context's transaction, or in one of its own. */
export async function inTransaction<T>(
  { app, caller, tx }: WriteContext,
  write: (open: OpenTransaction) => Promise<T>,
): Promise<T> {
  const writeIn = (inner: Tx): Promise<T> => {
    applyQuotas(inner, caller);
    return write({
      app,
      caller,
      tx: inner,
      queries: inner,
      publication: Publication.within(app, inner, causeOf(caller)),
    });
  };
  requireRoomForWrites(app, writeWindowsOf(caller));
  if (tx !== null) return writeIn(tx);
  const written = await beginCounted(app, writeIn);
  notifyCommitted(app, { tenantId: caller.tenant.id });
  return written;
}

function causeOf({ tenant, id, triggeredBy, chain, importId }: TenantCaller): Cause {
  const depth = chain === undefined ? 0 : chain.depth + 1;
  const { rootEventId, runs: chainRuns } = chain ?? { rootEventId: null, runs: 0 };
  const cause = { tenantId: tenant.id, actor: id, triggeredBy, depth, rootEventId, chainRuns };
  return importId === undefined ? cause : { ...cause, importId };
}
