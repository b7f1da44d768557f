// Bots: software agents of a tenant, with a name, a secret and their own permissions. The secret is random, shown once and
// stored as a hash; it is exchanged for a token of one hour. A revoked bot gets no further tokens; its existing tokens stay
// valid until they expire.
// Contract: interface#bot, interface#identity, decisions#lockout.
import { type Static, Type } from '@sinclair/typebox';
import type { TenantCaller } from '../access/caller.ts';
import { lockEntities } from '../access/grants.ts';
import { isEntityName } from '../access/rights.ts';
import type { App } from '../app.ts';
import { catalogOf } from '../entities/catalog.ts';
import { conflict, forbidden, notFound, type Problem } from '../errors.ts';
import { receivedBudget } from '../http/bounded-response.ts';
import { check, requireFits } from '../http/check.ts';
import {
  byNamedResource,
  closed,
  LastUsedAt,
  nullable,
  Operations,
  optional,
  type Revoked,
  Timestamp,
  text,
  Uuid,
} from '../http/schemas.ts';
import { LIMITS } from '../limits.ts';
import { isUuid, newId } from '../runtime/ids.ts';
import { jsonb, type Sql, sql } from '../runtime/sql.ts';
import { jsonBytes } from '../runtime/text.ts';
import { newToken, sha256 } from '../runtime/tokens.ts';
import { requireRoom, requireTextFits } from '../tenants/definition-counts.ts';
import type { Tenant } from '../tenants/tenants.ts';

const SECRET_PREFIX = 'svc_bot_';

export const BotName = Type.String({ pattern: '^[a-z0-9-]{3,50}$', examples: ['order-agent'] });
const Slug = Type.String({ examples: ['acme'] });
const Secret = Type.String({ description: 'shown once', examples: ['svc_bot_...'] });
const byEntity = {
  description: 'operations by entity, view or agent; no wildcards',
  examples: [{ entities: { orders: ['read', 'update'] } }],
};
export const BotPermissionsSchema = closed({ entities: byNamedResource(Operations) }, byEntity);
export type BotPermissions = Static<typeof BotPermissionsSchema>;
const { writesPerHourMax, rowsPerCallMax } = LIMITS.bot;
export const BotLimitsSchema = closed(
  {
    writesPerHour: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: writesPerHourMax,
        description: 'records written in an hour, each one of a bulk call or import',
      }),
    ),
    maxRowsPerCall: Type.Optional(
      Type.Integer({ minimum: 1, maximum: rowsPerCallMax, description: 'rows that one call may read' }),
    ),
  },
  { description: 'what it may do at most; none: unlimited', examples: [{ writesPerHour: 1_000, maxRowsPerCall: 100 }] },
);

export const BotSchema = Type.Object(
  {
    id: Uuid,
    name: BotName,
    tenantSlug: Slug,
    permissions: BotPermissionsSchema,
    limits: BotLimitsSchema,
    isActive: Type.Boolean({ examples: [true] }),
    revokedAt: nullable(Timestamp),
    lastUsedAt: LastUsedAt,
    createdAt: Timestamp,
    updatedAt: Timestamp,
  },
  { $id: 'Bot' },
);
type Bot = Static<typeof BotSchema>;
export const BotResetSecret = Type.Object({ id: Uuid, name: BotName, secret: Secret }, { $id: 'BotResetSecret' });
export const BotWithSecret = Type.Object(
  { id: Uuid, name: BotName, secret: Secret, tenantSlug: Slug },
  { $id: 'BotWithSecret' },
);
export const NewBot = closed({
  name: BotName,
  tenantSlug: text(LIMITS.key.labelMax, { examples: ['acme'] }),
  permissions: optional(Type.Partial(BotPermissionsSchema, byEntity)),
  limits: optional(BotLimitsSchema),
});
/** A change of a bot: missing members keep their values, given members are replaced as a whole, and null clears the limits. */
export const BotChange = closed({
  permissions: Type.Optional(BotPermissionsSchema),
  limits: Type.Optional(nullable(BotLimitsSchema)),
});

/** Registers a bot. 400 with every problem, 403 for another tenant's slug, 409 for a name that is taken. */
export async function registerBot(
  app: App,
  caller: TenantCaller,
  body: Static<typeof NewBot>,
): Promise<Static<typeof BotWithSecret>> {
  const { tenant } = caller;
  if (typeof body.tenantSlug === 'string' && body.tenantSlug !== tenant.slug) {
    throw forbidden('tenantSlug names another tenant');
  }
  requireFits(body, 'a bot', LIMITS.definitionBytesMax);
  const { byName } = await catalogOf(app, tenant);
  const { name, permissions, limits } = check(NewBot, body, (valid) => unknownEntities(valid, byName));
  const entities = permissions?.entities ?? {};
  const secret = newToken(SECRET_PREFIX);
  const row = await app.db.begin(async (tx) => {
    await lockEntities(tx, tenant, entities, 'permissions.entities');
    await requireRoom(tx, tenant, 'bots');
    await requireTextFits(tx, tenant, 'bots', jsonBytes(body));
    return tx.first<{ id: string }>(sql`
      insert into platform.bots (id, tenant_id, name, secret_hash, permissions, limits, created_by)
      values (${newId()}::uuid, ${tenant.id}::uuid, ${name}, decode(${sha256(secret).toString('hex')}, 'hex'),
        ${jsonb({ entities })}, ${jsonb(limits ?? {})}, ${caller.id})
      on conflict (tenant_id, name) do nothing
      returning id`);
  });
  if (row === undefined) throw conflict(`a bot named ${name} already exists`);
  return { id: row.id, name, secret, tenantSlug: tenant.slug };
}

function unknownEntities(
  { permissions }: { permissions?: { entities?: object } | null },
  known: ReadonlyMap<string, unknown>,
): Problem[] {
  return Object.keys(permissions?.entities ?? {})
    .filter((resource) => isEntityName(resource) && !known.has(resource))
    .map((resource) => ({ path: `permissions.entities.${resource}`, message: 'is not an entity of this tenant' }));
}

/** Changes the permissions or limits, which also apply to existing tokens. 404 for an unknown bot, 409 for a revoked one. */
export async function changeBot(
  app: App,
  caller: TenantCaller,
  id: string,
  body: Static<typeof BotChange>,
): Promise<Bot> {
  if (!isUuid(id)) throw notFound('bot');
  const { tenant } = caller;
  requireFits(body, 'a bot', LIMITS.definitionBytesMax);
  const { byName } = await catalogOf(app, tenant);
  const own = sql`id = ${id}::uuid and tenant_id = ${tenant.id}::uuid`;
  const existing = await app.db.first<{ isActive: boolean; bytes: number }>(sql`
    select revoked_at is null as "isActive", octet_length(permissions::text) as bytes from platform.bots where ${own}`);
  if (existing === undefined) throw notFound('bot');
  if (!existing.isActive) throw conflict('this bot is revoked');
  const { permissions, limits } = check(BotChange, body, (valid) => unknownEntities(valid, byName));
  const row = await app.db.begin(async (tx) => {
    await lockEntities(tx, tenant, permissions?.entities ?? {}, 'permissions.entities');
    if (permissions != null) await requireTextFits(tx, tenant, 'bots', jsonBytes(permissions) - existing.bytes);
    return tx.first<Bot>(sql`
      update platform.bots
      set permissions = coalesce(${jsonb(permissions)}, permissions),
        limits = case when ${limits === undefined}::boolean then limits else ${jsonb(limits ?? {})} end,
        updated_at = now()
      where ${own} and revoked_at is null
      returning ${columnsFor(tenant)}`);
  });
  if (row === undefined) throw conflict('this bot is revoked');
  await app.invalidations.publish('bot', [row.id], tenant.id);
  return row;
}

function columnsFor({ slug }: Tenant): Sql {
  return sql`id, name, ${slug}::text as "tenantSlug", permissions, limits, revoked_at is null as "isActive",
    revoked_at as "revokedAt", last_used_at as "lastUsedAt", created_at as "createdAt", updated_at as "updatedAt"`;
}

/**
 * The tenant's bots, newest first, including the last revoked ones: only as many as have as much text as the active bots may
 * have.
 */
export async function listBots(app: App, caller: TenantCaller): Promise<Bot[]> {
  const bots = sql`
    select ${columnsFor(caller.tenant)}
    from platform.bots
    where tenant_id = ${caller.tenant.id}::uuid and (revoked_at is null or id in (
      select id from (
        select id, sum(octet_length(permissions::text)) over (order by revoked_at desc, id desc) as bytes
        from (
          select id, revoked_at, permissions from platform.bots
          where tenant_id = ${caller.tenant.id}::uuid and revoked_at is not null
          order by revoked_at desc, id desc
          limit ${LIMITS.bot.revokedShown}::int
        ) as latest
      ) as measured
      where bytes <= ${LIMITS.perTenantBytes.bots}::int
    ))
    order by id desc`;
  // The bytes are counted as they arrive, so that few large lists are in memory at once.
  return app.db.rows<Bot>(bots, receivedBudget());
}

/** Revokes permanently; repeating it changes nothing. 404 for a bot of another tenant. */
export async function revokeBot(app: App, caller: TenantCaller, id: string): Promise<Static<typeof Revoked>> {
  if (!isUuid(id)) throw notFound('bot');
  const row = await app.db.first(sql`
    update platform.bots set revoked_at = coalesce(revoked_at, now()), updated_at = now()
    where id = ${id}::uuid and tenant_id = ${caller.tenant.id}::uuid
    returning id`);
  if (row === undefined) throw notFound('bot');
  return { id: id.toLowerCase(), revoked: true };
}

/** Replaces the secret; the old one is invalid at once. 404 for an unknown bot, 409 for a revoked one. */
export async function resetBotSecret(
  app: App,
  caller: TenantCaller,
  id: string,
): Promise<Static<typeof BotResetSecret>> {
  if (!isUuid(id)) throw notFound('bot');
  const own = sql`id = ${id}::uuid and tenant_id = ${caller.tenant.id}::uuid`;
  const secret = newToken(SECRET_PREFIX);
  const row = await app.db.first<{ name: string }>(sql`
    update platform.bots
    set secret_hash = decode(${sha256(secret).toString('hex')}, 'hex'), updated_at = now()
    where ${own} and revoked_at is null
    returning name`);
  if (row !== undefined) return { id: id.toLowerCase(), name: row.name, secret };
  const revoked = await app.db.first(sql`select from platform.bots where ${own}`);
  throw revoked === undefined ? notFound('bot') : conflict('this bot is revoked');
}
