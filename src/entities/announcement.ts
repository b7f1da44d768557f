// Announces changes of definitions in the feed: an entity dropped, a field renamed, retyped or dropped, existing records filled
// with a default, the conditions of a view changed. The event commits with the change; followers then read the records again.
// Streams and webhooks do not show it.
// Contract: feed#changes-of-definitions.
import type { TenantCaller } from '../access/caller.ts';
import { DEFINITION_CHANGED } from '../events/event.ts';
import { appendEvent, type Cause } from '../events/outbox.ts';
import { identifier, sql, type Tx } from '../runtime/sql.ts';
import type { Tenant } from '../tenants/tenants.ts';
import type { Entity, Field } from './field.ts';

type Named = Pick<Entity, 'id' | 'name'>;

/** Who changes a definition. */
export function changerOf({ tenant, id, triggeredBy }: TenantCaller): Cause {
  return { tenantId: tenant.id, actor: id, triggeredBy, depth: 0, rootEventId: null, chainRuns: 0 };
}

/** Announces the change of a field. The event names the field: for followers that may not see it, nothing has changed. */
export async function announceChange(
  tx: Tx,
  cause: Cause,
  { id, name }: Named,
  field: Pick<Field, 'id' | 'key'>,
): Promise<void> {
  const changed = { field: { id: field.id, key: field.key } };
  await announce(tx, cause, changed, { id, name });
}

/** Announces that the conditions of a view change, or that it is deleted. For followers of other views, nothing has changed. */
export async function announceView(
  tx: Tx,
  cause: Cause,
  { slug }: { slug: string },
  { id, name }: Named,
): Promise<void> {
  await announce(tx, cause, { view: slug }, { id, name });
}

/**
 * Announces that an entity is dropped. Must be called before the grants on it are revoked: the event lists who might read it
 * until now.
 */
export async function announceDrop(tx: Tx, cause: Cause, tenant: Tenant, { id, name }: Named): Promise<void> {
  const readers = await tx.rows<{ reader: string }>(sql`
    select 'role ' || r.name as reader from ${identifier(tenant.schema, 'roles')} as r
    where r.permissions -> ${name}::text ? 'read'
    union all
    select 'bot ' || b.id from platform.bots as b
    where b.tenant_id = ${tenant.id}::uuid and b.permissions -> 'entities' -> ${name}::text ? 'read'
    union all
    select 'api ' || a.id || ' ' || p.role
    from platform.apis as a, jsonb_each(a.permissions -> ${name}::text) as p (role, operations)
    where a.tenant_id = ${tenant.id}::uuid and jsonb_typeof(a.permissions -> ${name}::text) = 'object' and p.operations ? 'read'`);
  await announce(tx, cause, { readers: readers.map(({ reader }) => reader) }, { id, name });
}

/**
 * Appends the event with its number among the tenant's announced changes. Other changes of the tenant wait for the counter, so that
 * the numbers are in the order of the commits.
 */
async function announce(tx: Tx, cause: Cause, change: Record<string, unknown>, { id, name }: Named): Promise<void> {
  const counted =
    tx.dryRun === undefined
      ? await tx.first<{ number: number }>(sql`
          update platform.tenants set definition_changes = definition_changes + 1 where id = ${cause.tenantId}::uuid
          returning definition_changes::float8 as number`)
      : undefined;
  const about = { entity: name, entityId: id, recordId: null };
  await appendEvent(tx, DEFINITION_CHANGED, cause, { ...change, ...counted }, about);
}
