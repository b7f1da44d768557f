// Who made changes: the kind of account or credential of each id, and its name. Names are for tenant admins, who can list
// users, bots and keys; anybody else sees at most their own name. A deleted account has neither kind nor name.
// Contract: history#actors.
import { type Static, Type } from '@sinclair/typebox';
import type { TenantCaller } from '../access/caller.ts';
import type { App } from '../app.ts';
import type { CommittedEvent } from '../events/event.ts';
import { nullable, oneOf } from '../http/schemas.ts';
import { isUuid } from '../runtime/ids.ts';
import { identifier, sql } from '../runtime/sql.ts';

const KINDS = ['user', 'bot', 'owner_key', 'platform_key', 'admin_session', 'super_admin', 'system'] as const;
type ActorKind = (typeof KINDS)[number];

export const ActorSchema = Type.Object(
  {
    id: nullable(Type.String(), { description: 'null for the super-admin and the service itself' }),
    kind: nullable(oneOf(KINDS), { description: 'null for an account that has been deleted' }),
    name: nullable(Type.String(), {
      description: 'of a user or bot, or the label of a key; null for others, and for callers who may not see it',
      examples: ['Ada Lovelace'],
    }),
  },
  { $id: 'Actor' },
);
export type Actor = Static<typeof ActorSchema>;

export type ChangeOrigin = Pick<CommittedEvent, 'actor' | 'triggeredBy'>;

/** The function that names the actor of each of these events. */
export async function actorsOf(
  app: App,
  caller: TenantCaller,
  events: readonly ChangeOrigin[],
): Promise<(event: ChangeOrigin) => Actor> {
  const ids = [...new Set(events.flatMap(({ actor }) => (actor !== null && isUuid(actor) ? [actor] : [])))];
  const known = new Map((await accounts(app, caller, ids)).map((account) => [account.id, account]));
  return ({ actor: id, triggeredBy }) => {
    if (id === null) {
      const isService = triggeredBy === 'rule' || triggeredBy === 'system';
      return { id, kind: isService ? 'system' : 'super_admin', name: null };
    }
    const { kind = null, name = null } = known.get(id) ?? {};
    const isShown = (caller.isTenantAdmin && caller.asRole === undefined) || id === caller.id;
    return { id, kind, name: isShown && name !== '' ? name : null };
  };
}

interface Account {
  id: string;
  kind: ActorKind;
  name: string | null;
}

async function accounts(app: App, { tenant }: TenantCaller, ids: readonly string[]): Promise<Account[]> {
  if (ids.length === 0) return [];
  const found = sql`tenant_id = ${tenant.id}::uuid and id = any(${[...ids]}::uuid[])`;
  return app.db.rows<Account>(sql`
    select id, 'user' as kind, name from ${identifier(tenant.schema, 'users')} where id = any(${[...ids]}::uuid[])
    union all select id, 'bot', name from platform.bots where ${found}
    union all select id, 'owner_key', label from platform.owner_keys where ${found}
    union all select id, 'platform_key', label from platform.platform_keys where ${found}
    union all select id, 'admin_session', null from platform.admin_sessions where ${found}`);
}
