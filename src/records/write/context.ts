// Where a write runs and as whom: as one statement that commits by itself, or in a transaction. Both open the
// publication of its changes, and close it when they have committed or failed.
// Contract: decisions#guarantees.
import type { TenantCaller } from '../../access/caller.ts';
import type { App } from '../../app.ts';
import type { Cause } from '../../events/outbox.ts';
import { type EntityChange, notifyCommitted, Publication } from '../../events/publication.ts';
import type { Queries, Tx } from '../../runtime/sql.ts';

/** Attempts before a write that keeps meeting others fails with 409. */
export const MAX_ATTEMPTS = 8;

/** What an operation that writes is given. */
export interface WriteContext {
  app: App;
  caller: TenantCaller;
  /** The transaction to write in; null to commit by itself. */
  tx: Tx | null;
}

/** A write under way. */
export interface Writing extends WriteContext {
  queries: Queries;
  publication: Publication;
}

/** Rows read in a transaction are locked, so they do not change before the write. */
export type WritingInTransaction = Writing & { tx: Tx };

export function autocommit(app: App, caller: TenantCaller): WriteContext {
  return { app, caller, tx: null };
}

/** Runs a write whose change is one statement, of one record if `isSingle`. It resolves to null if nothing changed. */
export function inStatement<T>(
  { app, caller }: WriteContext,
  change: EntityChange & { isSingle: boolean },
  write: (writing: Writing) => Promise<T>,
): Promise<T> {
  return Publication.run(app, causeOf(caller), change, (publication) =>
    write({ app, caller, tx: null, queries: app.db, publication }),
  );
}

/** Runs a write in the context's transaction, or in one of its own. */
export async function inTransaction<T>(
  { app, caller, tx }: WriteContext,
  write: (writing: WritingInTransaction) => Promise<T>,
): Promise<T> {
  const writeIn = (open: Tx): Promise<T> =>
    write({ app, caller, tx: open, queries: open, publication: Publication.within(open, causeOf(caller)) });
  if (tx !== null) return writeIn(tx);
  const written = await app.db.begin(writeIn);
  notifyCommitted(app, { tenantId: caller.tenant.id });
  return written;
}

function causeOf({ tenant, id, triggeredBy, chain }: TenantCaller): Cause {
  const depth = chain === undefined ? 0 : chain.depth + 1;
  return { tenantId: tenant.id, actor: id, triggeredBy, depth, rootEventId: chain?.rootEventId ?? null };
}
