// Validates stored records against a stricter definition: which attributes became stricter, and how many
// records violate each. Uses the same parsers as writes do.
// Contract: decisions#field-changes.
import type { App } from '../app.ts';
import { conflict, type Problem, type ServiceError } from '../errors.ts';
import { columnOf } from '../expression/to-sql.ts';
import { LIMITS } from '../limits.ts';
import { giveWay } from '../runtime/event-loop.ts';
import { sql } from '../runtime/sql.ts';
import { countValues, valuesOf } from './backfill.ts';
import { type Entity, FIELD_RULES, type Field, type FieldRules } from './field.ts';
import { compareLimits } from './field-parsers.ts';
import { specOf } from './field-types.ts';
import { withMatches } from './patterns.ts';
import { conversionValue, convertValue, exceedsIndex } from './values.ts';

/** An attribute that stored values may violate. */
export type Check = 'required' | 'unique' | 'indexed' | 'type' | keyof FieldRules;

/** The attributes in which `after` accepts less than `before`. A new type is one check, which covers its rules. */
export function stricterAttributes(before: Field, after: Field): Check[] {
  const checks: Check[] = [];
  if (after.required && !before.required) checks.push('required');
  if (after.type !== before.type || after.targetId !== before.targetId) checks.push('type');
  else {
    checks.push(...FIELD_RULES.filter((rule) => isStricter(rule, before, after)));
    if (after.indexed && !before.indexed) checks.push('indexed');
  }
  if (after.unique && !before.unique) checks.push('unique');
  return checks;
}

function isStricter(rule: keyof FieldRules, before: Field, after: Field): boolean {
  const [old, now] = [before[rule], after[rule]];
  if (now === undefined) return false;
  if (old === undefined) return true;
  switch (rule) {
    case 'min':
    case 'minLength':
      return compareLimits(now as number, old as number) > 0;
    case 'max':
    case 'maxLength':
      return compareLimits(now as number, old as number) < 0;
    case 'options':
      return (old as string[]).some((option) => !(now as string[]).includes(option));
    default:
      return now !== old;
  }
}

/** Throws 409 with the counts when stored records violate one of the checks. */
export async function validateStored(app: App, entity: Entity, before: Field, after: Field, checks: readonly Check[]) {
  const problems: Problem[] = [];
  const add = (path: string, count: number, message: string): void => {
    if (count > 0) problems.push({ path, message: `${count} record(s) ${message}` });
  };
  if (checks.includes('required')) add('required', await countValues(app, entity, before, false), 'have no value');
  if (checks.includes('unique'))
    add('unique', await countDuplicates(app, entity, before), 'share a value with another');
  const violations = violationsOf(before, after, checks);
  if (violations.length > 0) {
    // A text of more characters also has more bytes, so few values of a large entity are read when only the index limit is
    // checked.
    const isForIndexOnly = violations.every(({ path }) => path === 'unique' || path === 'indexed');
    for await (const values of valuesOf(app, entity, before, isForIndexOnly ? LIMITS.indexedTextMax : 0)) {
      for (const value of values) {
        await giveWay();
        await withMatches([conversionValue(before, after, value)], () => {
          for (const violation of violations) if (violation.isViolated(value)) violation.count += 1;
        });
      }
    }
    for (const { path, count, message } of violations) add(path, count, message);
  }
  if (problems.length > 0) throw storedConflict(problems);
}

export function storedConflict(problems: readonly Problem[]): ServiceError {
  const list = problems.map(({ path, message }) => `${path}: ${message}`).join('; ');
  return conflict(`stored records do not allow this change: ${list}`, problems);
}

interface Violation {
  path: string;
  message: string;
  count: number;
  isViolated(value: unknown): boolean;
}

function violationsOf(before: Field, after: Field, checks: readonly Check[]): Violation[] {
  return checks.flatMap((path): Violation[] => {
    if (path === 'required') return [];
    if (path === 'unique' || path === 'indexed') {
      const message = 'have a value too long for an index';
      return [{ path, message, count: 0, isViolated: (value) => exceedsIndex(after, value) }];
    }
    if (path === 'type') {
      const message = `have a value that is not a valid ${after.type}`;
      return [{ path, message, count: 0, isViolated: (value) => 'problem' in convertValue(before, after, value) }];
    }
    const stricter = { ...before, [path]: after[path] };
    const isViolated = (value: unknown) => 'problem' in specOf(before).parse(value, stricter);
    return [{ path, message: 'violate it', count: 0, isViolated }];
  });
}

/** The number of records whose value another record shares. */
export async function countDuplicates(app: App, entity: Entity, field: Field): Promise<number> {
  const column = columnOf(field.ref, sql`r`);
  const row = await app.db.slow.first<{ n: number }>(sql`
    select coalesce(sum(n), 0)::bigint as n from (
      select count(*) as n from ${entity.table} as r
      where r.data ? ${field.slot}::text
      group by ${column}
      having count(*) > 1) as shared`);
  return row?.n ?? 0;
}
