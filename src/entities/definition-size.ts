// The size of a tenant's definitions, which each process holds in memory and returns in one response. There is a limit for the
// fields of an entity, and one for all fields and rules of a tenant together. Must run under the definition lock.
// Failures: 400, 409.
// Contract: neighbours#fair-shares.
import { conflict, invalidField } from '../errors.ts';
import { LIMITS } from '../limits.ts';
import { identifier, sql, type Tx } from '../runtime/sql.ts';
import { jsonBytes } from '../runtime/text.ts';
import type { Field } from './field.ts';
import { fieldIndexCount, indexKinds } from './indexes.ts';

/** An entity's fields before and after a change. */
interface FieldsChange {
  before: readonly Field[];
  after: readonly Field[];
}

/**
 * 400 when the fields of an entity take more than an entity may have, and 409 when the tenant's definitions would; a change
 * that makes them smaller is always possible.
 */
export async function requireFieldsFit(tx: Tx, schema: string, { before, after }: FieldsChange): Promise<void> {
  const indexesMore = fieldIndexCount(after) - fieldIndexCount(before);
  if (indexesMore > 0) await requireIndexesFit(tx, schema, indexesMore);
  const [from, to] = [fieldsBytes(before), fieldsBytes(after)];
  if (to <= from) return;
  const { fieldBytesMax } = LIMITS.entity;
  if (to > fieldBytesMax) {
    throw invalidField(
      'fields',
      `the fields of an entity take at most ${fieldBytesMax} bytes as JSON, and these ${to}; ` +
        'use fewer or shorter options, descriptions and defaults, or a second entity',
    );
  }
  await requireDefinitionsFit(tx, schema, to - from);
}

/**
 * 409 when the tenant's entities would have too many indexes with `added` more: a statement locks all those of each table that it
 * names, in a table of locks that all tenants share.
 */
export async function requireIndexesFit(tx: Tx, schema: string, added: number): Promise<void> {
  const { perTenant } = LIMITS.indexes;
  const declared = await tx.first<{ n: number }>(sql`
    select coalesce(sum(jsonb_array_length(indexes)), 0)::int as n from ${identifier(schema, 'entity_definitions')}`);
  const kinds = await tx.rows<Pick<Field, 'type' | 'unique' | 'indexed'> & { n: number }>(sql`
    select type, is_unique as unique, is_indexed as indexed, count(*)::int as n
    from ${identifier(schema, 'field_definitions')} group by 1, 2, 3`);
  const ofFields = kinds.reduce((sum, kind) => sum + kind.n * indexKinds(kind).length, 0);
  if (ofFields + (declared?.n ?? 0) + added <= perTenant) return;
  throw conflict(
    `the entities of a tenant have at most ${perTenant} indexes in all: those of unique, indexed and relation fields, and of several fields; drop some first`,
  );
}

/** 409 when the tenant's fields and rules, with `added` bytes more, take more than a tenant may have. */
export async function requireDefinitionsFit(tx: Tx, schema: string, added: number): Promise<void> {
  const { definitionBytesMax } = LIMITS.entity;
  const stored = await tx.first<{ bytes: number }>(sql`
    select (select coalesce(sum(octet_length(f::text)), 0) from ${identifier(schema, 'field_definitions')} as f)
      + (select coalesce(sum(octet_length(b::text)), 0) from ${identifier(schema, 'business_rules')} as b) as bytes`);
  if (Number(stored?.bytes ?? 0) + added <= definitionBytesMax) return;
  throw conflict(
    `the fields and rules of a tenant take at most ${definitionBytesMax} bytes; shorten or delete definitions first`,
  );
}

function fieldsBytes(fields: readonly Field[]): number {
  return jsonBytes(fields.map(({ ref: _, next: __, textMax: ___, ...definition }) => definition));
}
