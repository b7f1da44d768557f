// Which index of an entity has the records of a list in its order: one that begins with fields that a filter fixes to one
// value each, and goes on with the sort keys, all in their directions or all against them. Postgres chooses the same one when
// it plans the statement; knowing it before decides how the list is read. Contract: decisions#indexes.
import type { Entity } from '../../entities/field.ts';
import { indexKinds, type OrderedField, orderOf } from '../../entities/indexes.ts';
import { and, type Comparison, type Expression, type FieldRef, SYSTEM_FIELDS } from '../../expression/ast.ts';
import { type Order, orderIn, orderOfKeys, type Scan, type SortKey, sortKey } from './order.ts';

/** How a list is read. */
export interface Serving {
  order: Order;
  /** Null when the records must be sorted. */
  scan: Scan | null;
  /** Null unless the scan finds no other records than those that meet the condition: a page costs what its records cost. */
  whole: WholeScan | null;
  /** How many fields of the index the filters fix. */
  fixed: number;
  /** Whether indexes find the records that meet the condition, so that it costs little to find few of them again. */
  isFoundByIndexes: boolean;
}

/**
 * How a statement says that one index serves it, so that any plan of it is a scan of that index, also one that was made for
 * other values. An index column that equals a value would decide nothing, and Postgres might scan another index instead.
 */
interface WholeScan {
  /** The condition, with each `=` as two bounds. */
  bounds: Expression | null;
  /** The columns of the index before those that the order names. */
  lead: readonly SortKey[];
}

/** An index whose ties are in the order of ids, in the direction of its last field. */
type IndexOrder = readonly OrderedField[];

/** How an entity's records that meet a condition are read in the order of the keys. */
export function serve(entity: Entity, condition: Expression | null, keys: readonly SortKey[]): Serving {
  const order = orderIn(entity, keys);
  const filters = filtersOf(condition);
  // An index may have `createdAt` where the id would decide too.
  const orders = [order, orderOfKeys(order.keys)];
  const matches = indexesOf(entity).flatMap((index) => orders.map((one) => match(entity, index, filters, one)));
  const [best] = matches.filter((found) => found !== null).sort((a, b) => b.lead.length - a.lead.length);
  const isFoundByIndexes = areIndexed(entity, filters);
  if (best === undefined) {
    const scan = isByFirstKey(entity, order) ? 'by first key' : null;
    return { order, scan, whole: null, fixed: 0, isFoundByIndexes };
  }
  const { scan, lead, isWhole } = best;
  return {
    order: best.order,
    scan,
    whole: isWhole ? { bounds: and(...(filters.all ?? []).map(bounded)), lead } : null,
    fixed: lead.length,
    isFoundByIndexes,
  };
}

/** Whether each of the filters bounds an index. */
function areIndexed(entity: Entity, { all }: Filters): boolean {
  if (all === null || all.length === 0) return false;
  const first = new Set(indexesOf(entity).flatMap(([column]) => (column === undefined ? [] : [nameOf(column.ref)])));
  return all.every(({ subject, operator }) => first.has(nameOf(subject.field)) && RANGES.has(operator));
}

/** How far indexes serve a list: more is better, from 0 for one whose records are all sorted. */
export function gradeOf({ scan, whole, fixed }: Serving): number {
  if (whole !== null) return WHOLE;
  return scan === null ? 0 : scan === 'by first key' ? 1 : 2 + fixed;
}

/** More than any number of fields. */
const WHOLE = 100;

function bounded(comparison: Comparison): Expression {
  if (comparison.operator !== '=') return comparison;
  return { kind: 'and', parts: (['>=', '<='] as const).map((operator) => ({ ...comparison, operator })) };
}

interface Filters {
  /** What each record must equal, by slot or system key. */
  fixed: ReadonlySet<string>;
  /** All comparisons of a conjunction, or null for any other condition. */
  all: readonly Comparison[] | null;
}

/** What a condition requires of each record. */
export function filtersOf(condition: Expression | null): Filters {
  const parts = condition === null ? [] : conjunction(condition);
  const own = parts.filter((part) => part.kind === 'comparison' && part.subject.through === null) as Comparison[];
  return {
    fixed: new Set(own.filter(({ operator }) => operator === '=').map(({ subject }) => nameOf(subject.field))),
    all: own.length === parts.length ? own : null,
  };
}

function conjunction(expression: Expression): readonly Expression[] {
  return expression.kind === 'and' ? expression.parts.flatMap(conjunction) : [expression];
}

const known = new WeakMap<Entity, IndexOrder[]>();

/** The indexes whose last column is the id. Derived once for each definition: a list needs them before all else. */
function indexesOf(entity: Entity): IndexOrder[] {
  const indexes = known.get(entity) ?? indexesIn(entity);
  known.set(entity, indexes);
  return indexes;
}

function indexesIn(entity: Entity): IndexOrder[] {
  const single = entity.fields
    .filter((field) => indexKinds(field).includes('value'))
    .map(({ ref }) => [{ ref, isDescending: false }]);
  const time = { ref: SYSTEM_FIELDS.createdAt, isDescending: false };
  const ready = entity.indexes.filter(({ isBuilding }) => isBuilding !== true);
  const declared = ready.map((index) => orderOf(entity, index));
  return [[], ...(entity.isInIdOrder ? [] : [[time]]), ...single, ...declared];
}

interface Match {
  order: Order;
  scan: Scan;
  /** The fields of the index that the filters fix, in the order in which the scan has them. */
  lead: readonly SortKey[];
  isWhole: boolean;
}

function match(entity: Entity, index: IndexOrder, { fixed, all }: Filters, order: Order): Match | null {
  const { deciding, isIdDescending } = order;
  const count = index.length - deciding.length;
  if (count < 0 || !index.slice(0, count).every(({ ref }) => fixed.has(nameOf(ref)))) return null;
  const rest = index.slice(count);
  if (!rest.every(({ ref }, i) => isOf(deciding[i], ref))) return null;
  const ties = index.at(-1)?.isDescending === true;
  const isForward = ties === isIdDescending;
  const isAlong = rest.every(({ isDescending }, i) => (isDescending === deciding[i]?.isDescending) === isForward);
  // Backward, missing values come first: of the first key they are read apart.
  const isPossible = isForward || deciding.slice(1).every((key) => !mayBeMissing(entity, key));
  if (!isAlong || !isPossible) return null;
  const used = new Set(index.slice(0, count + 1).map(({ ref }) => nameOf(ref)));
  const isWhole =
    all?.every(({ subject, operator }) => used.has(nameOf(subject.field)) && RANGES.has(operator)) === true;
  const lead = index.slice(0, count).map(({ ref, isDescending }) => sortKey(ref, isDescending === isForward));
  return { order, scan: isForward ? 'forward' : 'backward', lead, isWhole };
}

/** Comparisons that bound a scan of an index. */
const RANGES: ReadonlySet<string> = new Set(['=', '<', '<=', '>', '>=']);

/** A required field has a value in every record. */
function mayBeMissing({ byKey }: Entity, { field }: SortKey): boolean {
  if (field === null || field.slot === null) return field?.value.sqlType !== 'timestamptz';
  return byKey.get(field.key)?.required !== true;
}

/** Whether an index is in the order of the first key, ascending, so that Postgres sorts only what is equal in it. */
function isByFirstKey(entity: Entity, { deciding: [first] }: Order): boolean {
  const isUnique = entity.fields.some(({ unique, ref }) => unique && isOf(first, ref));
  return isUnique || indexesOf(entity).some(([column]) => column?.isDescending === false && isOf(first, column.ref));
}

function isOf(key: SortKey | undefined, ref: FieldRef): boolean {
  return key?.field != null && nameOf(key.field) === nameOf(ref);
}

function nameOf({ key, slot }: FieldRef): string {
  return slot ?? key;
}
