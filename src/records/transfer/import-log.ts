// The log of imports: which events are those of an import. They carry its id, and lie between two numbers of the outbox, so
// that finding them reads no index of their own.
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

/** Records that no further events of an import follow, even when its client has gone. Never rejects: what is written is kept. */
export async function endImport(app: App, id: string): Promise<void> {
  const end = sql`update platform.imports set last_seq = ${LAST_EVENT} where id = ${id}::uuid`;
  await withoutSignal(() => app.db.rows(end)).catch((cause: unknown) => {
    app.log.warn('the end of an import could not be recorded', { importId: id, cause });
  });
}

/** Between which numbers the events of an import lie; of one that has not ended, up to now. 404. */
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
