// Aggregates: count, sum, avg, min and max over the records that a list would return, grouped by equal values. Sums are exact;
// sums of `decimal` fields are text. Groups are sorted by their values, missing values last.
// Contract: decisions#aggregates.
import { type Static, Type } from '@sinclair/typebox';
import { rowsLeft } from '../../access/bot-limits.ts';
import { requireRight, type TenantCaller } from '../../access/caller.ts';
import type { App } from '../../app.ts';
import { accessScopeFor } from '../../entities/access-scope.ts';
import { invalid, invalidField, type Problem } from '../../errors.ts';
import type { FieldRef, Names } from '../../expression/ast.ts';
import { columnOf } from '../../expression/to-sql.ts';
import { isOrdered, NUMBER } from '../../expression/value-types.ts';
import { receivedBudget, sized } from '../../http/bounded-response.ts';
import { parameters } from '../../http/parameters.ts';
import { LIMITS } from '../../limits.ts';
import { giveWay } from '../../runtime/event-loop.ts';
import { EMPTY, identifier, join, raw, type Sql, sql } from '../../runtime/sql.ts';
import { withoutFinalZeros } from '../../runtime/text.ts';
import { countRead } from '../../usage/tally.ts';
import { selectInTurn } from './list.ts';
import { LEGACY_FILTER, type ListInput, ListQuery } from './parameters.ts';

const { filters, search } = ListQuery.properties;
export const AggregateQuery = parameters(
  {
    metrics: Type.Optional(
      Type.String({
        default: 'count',
        description: '`count`, and `sum`, `avg`, `min`, `max` or `count` of a field, separated by commas',
        examples: ['count,avg:employees'],
      }),
    ),
    groupBy: Type.Optional(
      Type.String({ description: 'up to three fields, separated by commas', examples: ['country'] }),
    ),
    filters,
    search,
  },
  LEGACY_FILTER,
);
type AggregateInput = Static<typeof AggregateQuery> & Pick<ListInput, 'equalTo'>;

type Measure = 'count' | 'sum' | 'avg' | 'min' | 'max';

interface Metric {
  name: string;
  measure: Measure;
  /** Null for the plain count. */
  field: FieldRef | null;
}

const MEASURES: ReadonlySet<string> = new Set(['count', 'sum', 'avg', 'min', 'max']);

/** One item per group; a single item without `groupBy`. 400 with every invalid metric and group. */
export async function aggregateRecords(
  app: App,
  caller: TenantCaller,
  entityName: string,
  input: AggregateInput,
): Promise<{ items: Record<string, unknown>[] }> {
  requireRight(caller, 'read', entityName);
  const scope = await accessScopeFor(app, caller, entityName);
  countRead(app, caller);
  const { metrics, groups } = parseInput(input, scope.names);
  const { where } = await selectInTurn(scope, input);
  // Scanning a whole entity may take longer than the statement timeout of ordinary requests.
  const received = receivedBudget();
  const groupsMax = rowsLeft(caller, LIMITS.aggregate.groupsMax);
  const rows = await app.db.slow.rows<Record<string, unknown>>(
    aggregateQuery(scope.entity.table, where, metrics, groups, groupsMax + 1),
    received,
  );
  if (rows.length > groupsMax) {
    throw invalidField('groupBy', `produces more than ${groupsMax} groups; filter the records`);
  }
  const items: Record<string, unknown>[] = [];
  for (const row of rows) {
    const turn = giveWay();
    if (turn !== undefined) await turn;
    items.push(itemOf(row, metrics, groups));
  }
  return sized({ items }, received.taken);
}

function parseInput(input: AggregateInput, names: Names): { metrics: Metric[]; groups: FieldRef[] } {
  const problems: Problem[] = [];
  const groups = namesIn(input.groupBy).map((key) => readGroup(key, names, problems));
  const metrics = namesIn(input.metrics ?? 'count').map((text) => readMetric(text, names, problems));
  const { groupByMax, metricsMax } = LIMITS.aggregate;
  if (groups.length > groupByMax) problems.push({ path: 'groupBy', message: `takes at most ${groupByMax} fields` });
  if (metrics.length === 0) problems.push({ path: 'metrics', message: 'must name at least one metric' });
  if (metrics.length > metricsMax) problems.push({ path: 'metrics', message: `takes at most ${metricsMax} metrics` });
  const metricNames = new Set(metrics.map((metric) => metric?.name));
  for (const group of groups) {
    if (group !== null && metricNames.has(group.key)) {
      problems.push({ path: 'groupBy', message: `"${group.key}" is also the name of a metric` });
    }
  }
  if (problems.length > 0) throw invalid(problems);
  return { metrics: metrics as Metric[], groups: groups as FieldRef[] };
}

/** The distinct names of a comma-separated list. */
function namesIn(text: string | undefined): string[] {
  const names = (text ?? '').split(',').map((name) => name.trim());
  return [...new Set(names.filter((name) => name !== ''))];
}

function readGroup(key: string, names: Names, problems: Problem[]): FieldRef | null {
  const field = names.field(key);
  if (field === undefined) problems.push({ path: 'groupBy', message: `unknown field "${key}"` });
  else if (!isOrdered(field.value)) {
    problems.push({ path: 'groupBy', message: `records cannot be grouped by "${key}"` });
    return null;
  }
  return field ?? null;
}

function readMetric(text: string, names: Names, problems: Problem[]): Metric | null {
  const refuse = (message: string): null => {
    problems.push({ path: 'metrics', message });
    return null;
  };
  const [measure = '', key, ...rest] = text.split(':');
  if (!MEASURES.has(measure) || rest.length > 0)
    return refuse(`"${text}" is not count, sum, avg, min or max of a field`);
  if (key === undefined)
    return measure === 'count' ? { name: 'count', measure, field: null } : refuse(`"${text}" names no field`);
  const field = names.field(key);
  if (field === undefined) return refuse(`unknown field "${key}"`);
  const needsNumbers = measure === 'sum' || measure === 'avg';
  if (needsNumbers && field.value.sqlType !== 'numeric')
    return refuse(`"${key}" has no ${measure}: it does not hold numbers`);
  if (measure !== 'count' && !isOrdered(field.value)) return refuse(`"${key}" has no ${measure}`);
  return { name: `${measure}_${key}`, measure: measure as Measure, field };
}

function aggregateQuery(
  table: Sql,
  where: Sql,
  metrics: readonly Metric[],
  groups: readonly FieldRef[],
  limit: number,
): Sql {
  const keys = groups.map((_, i) => identifier(`g${i}`));
  const grouped = groups.map((field, i) => sql`${valueIn(field)} as ${identifier(`g${i}`)}`);
  const measured = metrics.flatMap(({ field }, i) =>
    field === null ? [] : [sql`${valueIn(field)} as ${identifier(`v${i}`)}`],
  );
  const results = metrics.map((metric, i) => sql`${measureOf(metric, identifier(`v${i}`))} as ${identifier(`m${i}`)}`);
  const ordered = keys.map((key) => sql`${key} nulls last`);
  const grouping = keys.length === 0 ? EMPTY : sql`group by ${join(keys, ', ')} order by ${join(ordered, ', ')}`;
  return sql`
    select ${join([...keys, ...results], ', ')}
    from (select ${join([raw('1 as one'), ...grouped, ...measured], ', ')} from ${table} as r where ${where}) as s
    ${grouping} limit ${limit}::int`;
}

/** A field's value. Ids become text: Postgres has min and max of uuid only since version 18. */
function valueIn(field: FieldRef): Sql {
  const column = columnOf(field, sql`r`);
  return field.value.sqlType === 'uuid' ? sql`(${column})::text collate "C"` : column;
}

function measureOf({ measure, field }: Metric, value: Sql): Sql {
  if (field === null) return sql`count(*)`;
  switch (measure) {
    case 'count':
      return sql`count(${value})`;
    case 'avg':
      // avg() rounds a large mean to the scale of its values.
      return sql`trim_scale(sum(${value}) * 1.000000000000 / nullif(count(${value}), 0))`;
    case 'min':
      return field.value.sqlType === 'boolean' ? sql`bool_and(${value})` : sql`min(${value})`;
    case 'max':
      return field.value.sqlType === 'boolean' ? sql`bool_or(${value})` : sql`max(${value})`;
    default:
      return sql`sum(${value})`;
  }
}

function itemOf(
  row: Readonly<Record<string, unknown>>,
  metrics: readonly Metric[],
  groups: readonly FieldRef[],
): Record<string, unknown> {
  const item: Record<string, unknown> = {};
  for (const [i, field] of groups.entries()) item[field.key] = asTyped(field, row[`g${i}`]);
  for (const [i, { name, measure, field }] of metrics.entries()) {
    item[name] = field === null || measure === 'count' ? row[`m${i}`] : asTyped(field, row[`m${i}`]);
  }
  return item;
}

/**
 * The driver returns numeric values as text. `decimal` values stay text, and so do sums that a JSON number would not hold
 * exactly.
 */
function asTyped({ value: type }: FieldRef, value: unknown): unknown {
  if (value === null || value === undefined) return null;
  return type === NUMBER && typeof value === 'string' ? numberOrText(value) : value;
}

/** A number, unless it would be out of range or round an integer. */
function numberOrText(text: string): number | string {
  const number = Number(text);
  if (!Number.isFinite(number)) return text;
  return Number.isSafeInteger(number) || text.includes('.') || isWrittenExactly(text, number) ? number : text;
}

/** Whether the number's shortest form has the same digits as this integer. */
function isWrittenExactly(integer: string, number: number): boolean {
  const digits = withoutFinalZeros(integer.replace(/^-/, ''));
  return number.toExponential().replace(/e.*$/, '').replace(/[-.]/g, '') === digits;
}
