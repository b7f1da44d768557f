// The entity of a view for a role that may read the view and not the entity: the service describes neither its fields
// nor their types to it, so they are those of the first records, with types guessed from the values.
import { queryOptions } from '@tanstack/react-query';
import type { Entity, Field, FieldType, Page, Row } from '../../api/answers.ts';
import { get } from '../../api/call.ts';
import { keyOf } from '../../api/queries.ts';
import { recordsOf, type View } from '../../api/views.ts';

const LOOKED_AT = 50;
/** Members that every record has. */
const SYSTEM = ['id', 'entityId', 'createdAt', 'updatedAt', 'createdBy', 'updatedBy'];
const DAY = /^\d{4}-\d\d-\d\d$/;
const TIME = /^\d{4}-\d\d-\d\dT[\d:.]+Z$/;

export const viewEntityQuery = (tenant: string, { slug, entitySlug }: View) =>
  queryOptions({
    queryKey: keyOf(tenant, 'view-entity', slug),
    queryFn: async ({ signal }): Promise<Entity> => {
      const query = { limit: LOOKED_AT, count: 'none' };
      const { items } = await get<Page<Row>>(recordsOf(slug), { tenant, signal, query });
      return { id: slug, name: entitySlug, label: null, description: null, fields: fieldsOf(items) };
    },
    // Other fields would be another list under the person's eyes.
    staleTime: Number.POSITIVE_INFINITY,
  });

export function fieldsOf(rows: readonly Row[]): Field[] {
  const keys = new Set(rows.flatMap((row) => Object.keys(row)));
  return [...keys]
    .filter((key) => !SYSTEM.includes(key))
    .map((key) => ({
      ...{ id: key, key, label: null, description: null, required: false, unique: false, indexed: false },
      type: typeOf(rows.map((row) => row[key]).filter((value) => value !== null && value !== '')),
    }));
}

/** A text of digits stays a text: it may be a code. */
function typeOf(values: readonly unknown[]): FieldType {
  const are = (test: (value: unknown) => boolean): boolean => values.length > 0 && values.every(test);
  if (are((value) => typeof value === 'boolean')) return 'boolean';
  if (are((value) => typeof value === 'number')) return 'number';
  if (are((value) => typeof value === 'object')) return 'json';
  if (are((value) => DAY.test(String(value)))) return 'date';
  return are((value) => TIME.test(String(value))) ? 'datetime' : 'text';
}
