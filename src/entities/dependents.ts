// What depends on a field's key: field lists and row filters of roles, conditions of views, rules and webhooks, and values that
// rules fill in. A rename or drop updates the field lists, so that a hidden field stays hidden; anything else that names the
// key must be changed first.
// Contract: decisions#field-changes, decisions#roles.
import { conflict } from '../errors.ts';
import { identifier, sql, type Tx } from '../runtime/sql.ts';
import type { Entity, Field } from './field.ts';

/**
 * The conditions of the view `v` as plain text: in JSON, the escape of a line break in front of a key would read as a letter of
 * the key.
 */
const CONDITIONS = sql`(select string_agg(c ->> 'condition', ' ') from jsonb_array_elements(v.filter_dsl -> 'validate') as c)`;

/** The action of the rule `b` without the escapes of JSON, for the same reason. */
const ACTION = sql`regexp_replace(b.action::text, ${String.raw`\\(u[0-9a-f]{4}|.)`}::text, ' ', 'g')`;

/** 409 when a condition or an action uses the key, on this entity or, through a relation, on another, or a rule fills the field. */
export async function requireNoDependents(tx: Tx, entity: Entity, field: Pick<Field, 'key'>): Promise<void> {
  const own = `\\m${field.key}\\M`;
  const related = `\\.${field.key}\\M`;
  const table = (name: string) => identifier(entity.schema, name);
  const dependents = await tx.rows<{ kind: string; name: string }>(sql`
    select 'role' as kind, r.name
    from ${table('roles')} as r, jsonb_each(r.entities) as e
    where e.value ->> 'rowFilter' ~ case when e.key = ${entity.name} then ${own} else ${related} end
    union all
    select 'view', v.slug
    from platform.views as v
    where v.tenant_id = ${entity.tenantId}::uuid and ${CONDITIONS} ~ case when v.entity_id = ${entity.id}::uuid then ${own} else ${related} end
    union all
    select 'rule', b.name
    from ${table('business_rules')} as b
    where concat(b.condition, ' ', ${ACTION}) ~ case when b.entity_id = ${entity.id}::uuid then ${own} else ${related} end
      or (b.action ->> 'type' = 'create_record' and b.action ->> 'entity' = ${entity.name}::text
        and b.action -> 'values' ? ${field.key}::text)
    union all
    select 'webhook', w.id::text
    from platform.webhook_subscriptions as w
    where w.tenant_id = ${entity.tenantId}::uuid and w.entity_id = ${entity.id}::uuid and w.filters ~ ${own}
    limit 20`);
  if (dependents.length === 0) return;
  const list = dependents.map(({ kind, name }) => `${kind} ${name}`).join(', ');
  throw conflict(
    `${field.key} is used by ${list}; change these first`,
    dependents.map(({ kind, name }) => ({ path: `${kind}:${name}`, message: `uses ${field.key}` })),
  );
}

/**
 * 409 when a role lists the key without the next one: the role was created or changed after the rename had begun to list both.
 */
export async function requireListedTogether(tx: Tx, entity: Entity, key: string, next: string): Promise<void> {
  const role = await tx.first<{ name: string }>(sql`
    select r.name
    from ${identifier(entity.schema, 'roles')} as r, unnest(array['fields', 'excludeFields']) as l (name)
    where r.entities -> ${entity.name}::text -> l.name ? ${key}::text
      and not r.entities -> ${entity.name}::text -> l.name ? ${next}::text
    limit 1`);
  if (role !== undefined) throw conflict(`the role ${role.name} has come to list ${key} meanwhile; try again`);
}

/** Replaces a key in the field lists of roles. Resolves to the number of roles that listed it. */
export async function replaceKeyInRoles(
  tx: Tx,
  entity: Entity,
  key: string,
  replacements: readonly string[],
  lists: readonly ('fields' | 'excludeFields')[] = ['fields', 'excludeFields'],
): Promise<number> {
  const roles = await tx.rows<{ id: string; entities: Record<string, Record<string, unknown>> }>(sql`
    select id, entities from ${identifier(entity.schema, 'roles')}
    where exists (
      select from unnest(${[...lists]}::text[]) as l (name) where entities -> ${entity.name}::text -> l.name ? ${key}::text)
    for update`);
  for (const { id, entities } of roles) {
    const rule = { ...entities[entity.name] };
    for (const name of lists) {
      const list = rule[name];
      if (Array.isArray(list)) rule[name] = list.flatMap((item) => (item === key ? replacements : [item]));
    }
    await tx.rows(sql`
      update ${identifier(entity.schema, 'roles')}
      set entities = ${JSON.stringify({ ...entities, [entity.name]: rule })}::text::jsonb, updated_at = now()
      where id = ${id}::uuid`);
  }
  return roles.length;
}
