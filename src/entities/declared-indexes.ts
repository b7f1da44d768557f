// The indexes of several fields that an entity's definition declares: parsed from a request, and shown. They hold fields by id, so
// that a field's key may change.
// Failures: 400 with every problem.
// Contract: decisions#indexes.
import { invalid, type Problem } from '../errors.ts';
import { SYSTEM_FIELDS } from '../expression/ast.ts';
import { isOrdered } from '../expression/value-types.ts';
import type { IndexInput, IndexView } from './definition.ts';
import type { DeclaredIndex, Entity, Field } from './field.ts';
import { INDEXED_SYSTEM_KEYS, isSystemKey } from './indexes.ts';

type Column = DeclaredIndex['columns'][number];

/** The indexes that a request declares, on these fields. 400 with every problem. */
export function readIndexes(fields: readonly Field[], input: readonly IndexInput[]): DeclaredIndex[] {
  const problems: Problem[] = [];
  const seen = new Map<string, number>();
  const declared = input.map((index, i) => {
    const columns = index.fields.map((name, j, names) => {
      const column = readColumn(fields, name);
      const isRepeated = names.findIndex((other) => withoutSign(other) === withoutSign(name)) < j;
      const problem = isRepeated ? `"${withoutSign(name)}" is named twice` : column;
      if (typeof problem === 'string') problems.push({ path: `indexes.${i}.fields.${j}`, message: problem });
      return typeof column === 'string' ? { field: '', isDescending: false } : column;
    });
    const same = index.fields.map((name) => name.replace(/^[+]/, '')).join();
    const first = seen.get(same) ?? i;
    seen.set(same, first);
    if (first < i) problems.push({ path: `indexes.${i}`, message: `is the same as indexes.${first}` });
    return { columns };
  });
  if (problems.length > 0) throw invalid(problems);
  return declared;
}

/** The column of the name, or the problem with the name. */
function readColumn(fields: readonly Field[], name: string): Column | string {
  const key = withoutSign(name);
  const isDescending = name.startsWith('-');
  if (isSystemKey(key)) return { field: key, isDescending };
  if (Object.hasOwn(SYSTEM_FIELDS, key)) return `"${key}" needs no index`;
  const field = fields.find((one) => one.key === key);
  if (field === undefined) return `unknown field "${key}"; an index takes fields and ${INDEXED_SYSTEM_KEYS.join(', ')}`;
  return isOrdered(field.ref.value) ? { field: field.id, isDescending } : `records cannot be sorted by "${key}"`;
}

function withoutSign(name: string): string {
  return name.replace(/^[+-]/, '');
}

/** The entity's indexes, without the indexes on fields that are not shown. */
export function indexViews({ indexes }: Entity, shown: readonly Field[]): IndexView[] {
  return indexes.flatMap(({ columns, isBuilding = false }) => {
    const fields = columns.flatMap(({ field, isDescending }) => {
      const key = isSystemKey(field) ? field : shown.find(({ id }) => id === field)?.key;
      return key === undefined ? [] : [`${isDescending ? '-' : ''}${key}`];
    });
    return fields.length < columns.length ? [] : [{ fields, state: isBuilding ? 'building' : 'ready' } as const];
  });
}
