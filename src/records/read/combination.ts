// The combination of a list's filters and sort keys, without the values: writes it as the text under which lists of the same
// combination are counted, and reads it back. The text names fields by slot, so that a field's key may change. It also contains
// the grade, how well indexes served the list, so that the count starts again when the indexes change.
// Contract: decisions#advice.
import type { Catalog } from '../../entities/catalog.ts';
import type { Entity } from '../../entities/field.ts';
import { type Expression, type FieldRef, type Names, type Subject, SYSTEM_FIELDS } from '../../expression/ast.ts';
import type { Operator } from '../../expression/value-types.ts';
import { gradeOf, type ListPlan } from './list-plan.ts';
import { type SortKey, sortKey } from './order.ts';

/** An expression whose comparisons are texts such as `f1 >`, or `f2.f1 not null` for a field that a relation reaches. */
type Node = string | { kind: 'and' | 'or'; parts: Node[] } | { kind: 'not'; part: Node };
type Text = [filters: Node | null, sort: string, grade: number];

/** A combination of filters and sort keys; its comparisons have no values. */
export interface Combination {
  condition: Expression | null;
  keys: readonly SortKey[];
  /** How well indexes served its lists: see `gradeOf`. */
  grade: number;
}

/**
 * The text of a list's combination. The order of the filters makes no difference, and repetitions of a filter beyond two are
 * dropped.
 */
export function combinationOf(condition: Expression | null, plan: ListPlan): string {
  const sort = plan.order.keys.map(({ field, isDescending }) => `${isDescending ? '-' : ''}${nameOf(field)}`);
  const text: Text = [condition && nodeOf(condition), sort.join(), gradeOf(plan)];
  return JSON.stringify(text);
}

function nameOf(field: FieldRef | null): string {
  return field?.slot ?? field?.key ?? '';
}

function nodeOf(expression: Expression): Node {
  if (expression.kind === 'not') return { kind: 'not', part: nodeOf(expression.part) };
  if (expression.kind === 'comparison') {
    const { operator, subject } = expression;
    const { field, through } = subject;
    return `${through === null ? '' : `${nameOf(through.field)}.`}${nameOf(field)} ${operator}`;
  }
  const { kind } = expression;
  const nodes = expression.parts.map(nodeOf);
  const parts = nodes.flatMap((node) => (typeof node === 'object' && node.kind === kind ? node.parts : [node]));
  const texts = parts.map((part) => JSON.stringify(part)).sort();
  return { kind, parts: texts.filter((text, i) => text !== texts[i - 2]).map((text): Node => JSON.parse(text)) };
}

/** The combination with the entity's current fields; null when a field no longer exists. `names` must contain all fields. */
export function readCombination(text: string, catalog: Catalog, entity: Entity, names: Names): Combination | null {
  const [filters, sort, grade] = JSON.parse(text) as Text;
  try {
    const keys = sort.split(',').map((key) => sortKey(fieldOf(entity, key.replace('-', '')), key.startsWith('-')));
    const condition = filters === null ? null : expressionOf(filters, { catalog, entity, names });
    return { condition, keys, grade };
  } catch (error) {
    if (error instanceof FieldGone) return null;
    throw error;
  }
}

class FieldGone extends Error {}

interface Definitions {
  catalog: Catalog;
  entity: Entity;
  names: Names;
}

function expressionOf(node: Node, definitions: Definitions): Expression {
  if (typeof node === 'object') {
    if (node.kind === 'not') return { kind: 'not', part: expressionOf(node.part, definitions) };
    return { kind: node.kind, parts: node.parts.map((part) => expressionOf(part, definitions)) };
  }
  const [, relation, field = '', operator] = /^(?:(\w+)\.)?(\w+) (.+)$/.exec(node) ?? [];
  return {
    kind: 'comparison',
    subject: subjectOf(field, relation, definitions),
    operator: operator as Operator,
    values: [],
  };
}

function subjectOf(name: string, relation: string | undefined, { catalog, entity, names }: Definitions): Subject {
  if (relation === undefined) return { field: fieldOf(entity, name), state: 'now', through: null };
  const { key } = fieldOf(entity, relation);
  const target = catalog.byId.get(entity.byKey.get(key)?.targetId ?? '');
  const related = names.related(key);
  if (target === undefined || related === undefined) throw new FieldGone();
  return { field: fieldOf(target, name), state: 'now', through: { field: fieldOf(entity, relation), related } };
}

/** A field by its slot or system key. */
function fieldOf({ fields }: Entity, name: string): FieldRef {
  const found = fields.find(({ slot }) => slot === name)?.ref ?? systemField(name);
  if (found === undefined) throw new FieldGone();
  return found;
}

function systemField(name: string): FieldRef | undefined {
  return Object.hasOwn(SYSTEM_FIELDS, name) ? SYSTEM_FIELDS[name as keyof typeof SYSTEM_FIELDS] : undefined;
}

/** The parameter `sort` of a combination. */
export function shownSort({ keys }: Combination): string {
  return keys.map(({ field, isDescending }) => `${isDescending ? '-' : ''}${field?.key ?? ''}`).join();
}

/** The parameter `filters` of a combination, with `?` for values; null without filters. */
export function shownFilters({ condition }: Combination): string | null {
  return condition && shown(condition);
}

const WITHOUT_VALUE: Partial<Record<Operator, string>> = { null: 'is null', 'not null': 'is not null', in: 'in (?)' };

function shown(expression: Expression): string {
  if (expression.kind === 'not') return `NOT ${nested(expression.part)}`;
  if (expression.kind === 'comparison') {
    const { subject, operator } = expression;
    const key = subject.through === null ? subject.field.key : `${subject.through.field.key}.${subject.field.key}`;
    return `${key} ${WITHOUT_VALUE[operator] ?? `${operator} ?`}`;
  }
  // AND binds tighter than OR.
  if (expression.kind === 'or') return expression.parts.map(shown).join(' OR ');
  return expression.parts.map((part) => (part.kind === 'or' ? nested(part) : shown(part))).join(' AND ');
}

function nested(expression: Expression): string {
  return expression.kind === 'comparison' ? shown(expression) : `(${shown(expression)})`;
}
