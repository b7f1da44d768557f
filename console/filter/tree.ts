// A condition as the builder edits it: read with the service's own parser, written back as text. Reading what was written
// gives the same tree. A text that no tree stands for, such as a comparison that never matches, stays text.
import type { Expression, Subject } from '../../src/expression/ast.ts';
import { parseExpression } from '../../src/expression/parse.ts';
import type { Operator, Value } from '../../src/expression/value-types.ts';
import { DECIMAL } from '../../src/expression/value-types.ts';
import type { Entity } from '../api/answers.ts';
import { namesOf, VARIABLE } from './names.ts';

export type { Operator };

/** A value as written: in quotes, bare (numbers, yes and no), or a variable such as `$now-7d`. */
export interface Operand {
  text: string;
  form: 'quoted' | 'bare' | 'variable';
}

export interface Term {
  kind: 'term';
  /** `stage`, `owner.title` through a relation, `$old.stage` and `$changed.stage` in rules. */
  path: string;
  operator: Operator;
  operands: readonly Operand[];
}

export interface Group {
  kind: 'and' | 'or';
  parts: readonly Tree[];
}

export type Tree = Term | Group | { kind: 'not'; part: Tree };

export type Read = { tree: Tree | null } | { problem: string };

/** The tree of a text; null for an empty one, the parser's problem for one that is wrong. */
export function readTree(text: string, entity: Entity, entities: readonly Entity[], allowOld = false): Read {
  if (text.trim() === '') return { tree: null };
  try {
    return { tree: treeOf(parseExpression(text, namesOf(entity, entities, allowOld), '')) };
  } catch (cause) {
    return { problem: (cause instanceof Error ? cause.message : String(cause)).replace(/^:? ?/, '') };
  }
}

function treeOf(expression: Expression): Tree {
  if (expression.kind === 'not') return { kind: 'not', part: treeOf(expression.part) };
  if (expression.kind !== 'comparison') return { kind: expression.kind, parts: expression.parts.map(treeOf) };
  const { subject, operator, values } = expression;
  if (operator === 'in' && values.length === 0) throw new Error('This condition never matches.');
  const isBare = subject.field.value === DECIMAL;
  return { kind: 'term', path: pathOf(subject), operator, operands: values.map((value) => operandOf(value, isBare)) };
}

function pathOf({ field, state, through }: Subject): string {
  if (through !== null) return `${through.field.key}.${field.key}`;
  return state === 'now' ? field.key : `$${state}.${field.key}`;
}

function operandOf(value: Value, isBare: boolean): Operand {
  if (typeof value !== 'string') return { text: String(value), form: 'bare' };
  if (value.startsWith(VARIABLE)) return { text: value.slice(1), form: 'variable' };
  return { text: value, form: isBare ? 'bare' : 'quoted' };
}

/** The text of a tree, which the service reads as the same condition. */
export function printTree(tree: Tree | null): string {
  return tree === null ? '' : print(tree);
}

/** The tree with other operands, such as values in place of variables. */
export function withOperands(tree: Tree, change: (operand: Operand) => Operand): Tree {
  if (tree.kind === 'term') return { ...tree, operands: tree.operands.map(change) };
  if (tree.kind === 'not') return { ...tree, part: withOperands(tree.part, change) };
  return { ...tree, parts: tree.parts.map((part) => withOperands(part, change)) };
}

function print(tree: Tree): string {
  if (tree.kind === 'term') return printTerm(tree);
  if (tree.kind === 'not') return `NOT ${isGroup(tree.part) ? `(${print(tree.part)})` : print(tree.part)}`;
  return tree.parts
    .map((part) => (isGroup(part) && !(tree.kind === 'or' && part.kind === 'and') ? `(${print(part)})` : print(part)))
    .join(tree.kind === 'and' ? ' AND ' : ' OR ');
}

export function isGroup(tree: Tree): tree is Group {
  return tree.kind === 'and' || tree.kind === 'or';
}

function printTerm({ path, operator, operands }: Term): string {
  if (operator === 'null') return `${path} is null`;
  if (operator === 'not null') return `${path} is not null`;
  if (operator === 'in') return `${path} in (${operands.map(printOperand).join(', ')})`;
  const [operand] = operands;
  if (path.startsWith('$changed.') && operator === '=' && operand?.text === 'true') return path;
  return `${path} ${operator} ${operand === undefined ? '' : printOperand(operand)}`;
}

function printOperand({ text, form }: Operand): string {
  return form === 'quoted' ? `"${text.replace(/[\\"]/g, '\\$&')}"` : text;
}
