// The log of imports: which events belong to an import. They carry its id and lie between two numbers of the outbox, so that
// finding them needs no index of its own.
// Contract: decisions#import.
import type { TenantCaller } from '../../access/caller.ts';
import type { App } from '../../app.ts';
import { notFound } from '../../errors.ts';
import { newId } from '../../runtime/ids.ts';
import { sql } from '../../runtime/sql.ts';
import { withoutSignal } from '../../runtime/work.ts';

/** The number of the last event so far; all later ones are higher. */
const LAST_EVENT = sql`(select last_value from platform.events_seq)`;

/** Records that an import begins. Resolves to its id, which its events carry. */
export async function beginImport(app: App, { tenant, id: actor }: TenantCaller, entityId: string): Promise<string> {
  const id = newId();
  await app.db.rows(sql`
    insert into platform.imports (id, tenant_id, entity_id, actor, first_seq)
    values (${id}::uuid, ${tenant.id}::uuid, ${entityId}::uuid, ${actor}, ${LAST_EVENT})`);
  return id;
}

/**
 * Records the end of an import: it causes no further events. Runs even when the client has gone, and never rejects: what is
 * written is kept.
 */
export async function endImport(app: App, id: string): Promise<void> {
  const end = sql`update platform.imports set last_seq = ${LAST_EVENT} where id = ${id}::uuid`;
  await withoutSignal(() => app.db.rows(end)).catch((cause: unknown) => {
    app.log.warn('the end of an import could not be recorded', { importId: id, cause });
  });
}

/** The numbers of the outbox between which the events of an import lie; up to now if it has not ended. 404. */
export async function spanOfImport(
  app: App,
  { tenant }: TenantCaller,
  id: string,
): Promise<{ first: number; last: number }> {
  const span = await app.db.first<{ first: number; last: number }>(sql`
    select first_seq as first, coalesce(last_seq, ${LAST_EVENT}) as last from platform.imports
    where id = ${id}::uuid and tenant_id = ${tenant.id}::uuid`);
  if (span === undefined) throw notFound('import');
  return span;
}
