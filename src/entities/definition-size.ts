// The size of a tenant's definitions, which each process holds in memory and returns in one response. There is a limit for the
// fields of an entity, and one for all fields and rules of a tenant together. Must run under the definition lock.
// Failures: 400, 409.
// Contract: neighbours#fair-shares.
import { conflict, invalidField } from '../errors.ts';
import { LIMITS } from '../limits.ts';
import { identifier, sql, type Tx } from '../runtime/sql.ts';
import { jsonBytes } from '../runtime/text.ts';
import type { Field } from './field.ts';

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
