// Which index of an entity has the records of a list in its order: an index that begins with fields that a filter fixes to one
// value each and continues with the sort keys, all in their directions or all against them. Postgres chooses the same index
// when it plans the statement. The service must know the index beforehand, because it decides how the list is read.
// Contract: decisions#indexes.
import type { Entity } from '../../entities/field.ts';
import { indexKinds, type OrderedField, orderOf } from '../../entities/indexes.ts';
import { and, type Comparison, type Expression, type FieldRef, SYSTEM_FIELDS } from '../../expression/ast.ts';
import { type Order, orderIn, orderOfKeys, type Scan, type SortKey, sortKey } from './order.ts';

/** How a list is read. */
export interface ListPlan {
  order: Order;
  /** Null when the records must be sorted. */
  scan: Scan | null;
  /** Null unless the scan reads only records that meet the condition: then a page costs only what its own records cost. */
  whole: WholeScan | null;
  /** The number of index fields that the filters fix. */
  fixed: number;
  /** Whether indexes find the records that meet the condition, so that finding a few of them again costs little. */
  isFoundByIndexes: boolean;
}

/**
 * How a statement is written so that every plan of it scans this index, even a plan made for other values. A plain `=` would
 * remove the column from the order, and Postgres might then choose another index.
 */
interface WholeScan {
  /** The condition, with each `=` as two bounds. */
  bounds: Expression | null;
  /** The index columns in front of the sort keys. */
  lead: readonly SortKey[];
}

/** An index whose ties are in the order of ids, in the direction of its last field. */
type IndexOrder = readonly OrderedField[];

/** How the records that meet a condition are read in the order of the keys. */
export function planList(entity: Entity, condition: Expression | null, keys: readonly SortKey[]): ListPlan {
  const order = orderIn(entity, keys);
  const filters = filtersOf(condition);
  // An index may have `createdAt` as a column where the id alone would decide too.
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

/** How well indexes serve a list: higher is better, and 0 means that all its records are sorted. */
export function gradeOf({ scan, whole, fixed }: ListPlan): number {
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
  /** The fields that the condition fixes to one value, by slot or system key. */
  fixed: ReadonlySet<string>;
  /** All comparisons of a conjunction, or null for any other condition. */
  all: readonly Comparison[] | null;
}

/** The filters that a condition applies to each record. */
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

/** The indexes whose last column is the id. Derived once per definition, because every list needs them first. */
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
  /** The fixed fields of the index, in the direction of the scan. */
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
  // A backward scan returns missing values first. The segments handle this for the first key only.
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

/** Whether an index has the first key in ascending order, so that Postgres sorts only records with equal values. */
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
