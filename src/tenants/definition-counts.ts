// Limits how many roles, views, users, keys and bots a tenant may have, and how much text its roles, views and bots may have. A
// transaction that adds one holds a lock from the check to its end, so that of two additions at the limit one is refused.
// Failures: 409 naming the limit.
// Contract: neighbours#byte-budgets.
import { conflict } from '../errors.ts';
import { LIMITS } from '../limits.ts';
import { identifier, type Sql, sql, type Tx } from '../runtime/sql.ts';
import type { Tenant } from './tenants.ts';

interface Counted {
  noun: string;
  wayOut: string;
  /** The statement's rows that count; `own` is a table of the tenant's schema. */
  from(tenant: Pick<Tenant, 'id'>, own: (table: string) => Sql): Sql;
}

/** The condition of keys that can be used. */
export const IS_ACTIVE_KEY = sql`revoked_at is null and (expires_at is null or expires_at > now())`;

const COUNTED = {
  roles: { noun: 'roles', wayOut: 'delete one', from: (_, own) => sql`${own('roles')} where not is_system` },
  views: {
    noun: 'views',
    wayOut: 'delete one',
    from: ({ id }: Pick<Tenant, 'id'>) => sql`platform.views where tenant_id = ${id}::uuid`,
  },
  users: {
    noun: 'active users',
    wayOut: 'deactivate or remove one',
    from: (_, own) => sql`${own('users')} where is_active`,
  },
  platformApis: {
    noun: 'platform APIs',
    wayOut: 'delete one',
    from: ({ id }) => sql`platform.apis where tenant_id = ${id}::uuid`,
  },
  publicKeys: {
    noun: 'public keys',
    wayOut: 'revoke one',
    from: ({ id }) => sql`platform.public_keys where tenant_id = ${id}::uuid and ${IS_ACTIVE_KEY}`,
  },
  bots: {
    noun: 'bots',
    wayOut: 'revoke one',
    from: ({ id }) => sql`platform.bots where tenant_id = ${id}::uuid and revoked_at is null`,
  },
  ownerKeys: {
    noun: 'owner keys beside its first one',
    wayOut: 'revoke one',
    from: ({ id }) => sql`platform.owner_keys where tenant_id = ${id}::uuid and ${IS_ACTIVE_KEY}
      and id <> (select min(id::text)::uuid from platform.owner_keys where tenant_id = ${id}::uuid)`,
  },
} as const satisfies Record<keyof typeof LIMITS.perTenant, Counted>;

/** The rows whose text counts. */
const TEXTS: Record<keyof typeof LIMITS.perTenantBytes, Counted['from']> = {
  roles: (_, own) => own('roles'),
  views: COUNTED.views.from,
  bots: COUNTED.bots.from,
};

/** 409 when the tenant's roles, views or bots, with `added` bytes more, would have more text than they may have together. */
export async function requireTextFits(
  tx: Tx,
  tenant: Pick<Tenant, 'id' | 'schema'>,
  kind: keyof typeof LIMITS.perTenantBytes,
  added: number,
): Promise<void> {
  if (added <= 0) return;
  const max = LIMITS.perTenantBytes[kind];
  await lockKind(tx, tenant, kind);
  const stored = await tx.first<{ bytes: number }>(sql`
    select coalesce(sum(octet_length(t::text)), 0) as bytes
    from (select * from ${TEXTS[kind](tenant, ownTable(tenant))}) as t`);
  if (Number(stored?.bytes ?? 0) + added <= max) return;
  throw conflict(`the ${kind} of a tenant take at most ${max} bytes together; shorten or delete some first`);
}

function ownTable({ schema }: Pick<Tenant, 'schema'>): (table: string) => Sql {
  return (table) => identifier(schema, table);
}

async function lockKind(tx: Tx, tenant: Pick<Tenant, 'schema'>, kind: string): Promise<void> {
  await tx.rows(sql`select pg_advisory_xact_lock(hashtext(${kind}), hashtext(${tenant.schema}))`);
}

/** 409 when the tenant has as many as it may have; otherwise the caller may add one in this transaction. */
export async function requireRoom(
  tx: Tx,
  tenant: Pick<Tenant, 'id' | 'schema'>,
  kind: keyof typeof COUNTED,
): Promise<void> {
  const { noun, wayOut, from }: Counted = COUNTED[kind];
  const max = LIMITS.perTenant[kind];
  await lockKind(tx, tenant, kind);
  const counted = await tx.first<{ n: number }>(sql`
    select count(*) as n from ${from(tenant, ownTable(tenant))}`);
  if ((counted?.n ?? 0) >= max) throw conflict(`a tenant has at most ${max} ${noun}; ${wayOut} first`);
}
