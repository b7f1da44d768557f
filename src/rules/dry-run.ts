// A dry run of a rule on a given record: whether its condition matches, and the action with its placeholders filled in.
// Reads related records; changes nothing.
// Failures: 400 for values that do not fit the entity, 404. Contract: decisions#rules.
import type { TenantCaller } from '../access/caller.ts';
import type { App } from '../app.ts';
import { catalogOf } from '../entities/catalog.ts';
import type { Entity, RuleOperation } from '../entities/field.ts';
import { patternValues, withMatches } from '../entities/patterns.ts';
import { readPatch, type SlotValues } from '../entities/values.ts';
import { invalid, notFound } from '../errors.ts';
import { SYSTEM_FIELDS } from '../expression/ast.ts';
import { check } from '../http/check.ts';
import { Evaluator } from '../records/read/evaluator.ts';
import type { RecordRow } from '../records/row.ts';
import { newRow } from '../records/write/prepare.ts';
import { conditionHolds, renderAction } from '../records/write/triggers.ts';
import { isUuid } from '../runtime/ids.ts';
import type { JsonObject } from '../runtime/text.ts';
import { type DryRun, DryRunRequest } from './definition.ts';
import { getRule } from './rules.ts';

/** The body is `{ record, old? }`; without `old`, an update is tested as if `record` were also the stored record. */
export async function testRule(app: App, caller: TenantCaller, id: string, body: DryRunRequest): Promise<DryRun> {
  const rule = await getRule(app, caller, id);
  const catalog = await catalogOf(app, caller.tenant);
  const entity = catalog.byName.get(rule.entity);
  if (entity === undefined) throw notFound('entity');
  const { record, old } = check(DryRunRequest, body);
  const operation = rule.trigger.slice(rule.trigger.indexOf('_') + 1) as RuleOperation;
  const after = await rowFrom(caller, entity, record, 'record');
  const before = operation === 'create' ? null : old == null ? after : await rowFrom(caller, entity, old, 'old');
  const context = { app, queries: app.db, evaluator: new Evaluator(app.db, catalog), caller, catalog };
  const matches = await conditionHolds(context, entity, rule, { operation, before, after });
  return { matches, action: matches ? renderAction(rule.action, entity, after) : null };
}

/** The stored form of a flat record, which may come from the API or be made up. */
async function rowFrom(caller: TenantCaller, entity: Entity, record: JsonObject, at: string): Promise<RecordRow> {
  const values = Object.entries(record).filter(([key]) => !Object.hasOwn(SYSTEM_FIELDS, key));
  const cleared = values.filter(([, value]) => value === null).map(([key]) => key);
  const given = values.filter(([key]) => !cleared.includes(key) || !entity.byKey.has(key));
  const input = Object.fromEntries(given);
  const { data, problems } = await withMatches(patternValues(entity, input), () =>
    readPatch(entity, input, () => true),
  );
  if (problems.length > 0) throw invalid(problems.map(({ path, message }) => ({ path: `${at}.${path}`, message })));
  const row = newRow(caller, data as SlotValues);
  const text = (key: string): string | undefined => {
    const value = record[key];
    return typeof value === 'string' ? value : undefined;
  };
  const id = text('id');
  return {
    ...row,
    id: id !== undefined && isUuid(id) ? id.toLowerCase() : row.id,
    created_at: text('createdAt') ?? row.created_at,
    updated_at: text('updatedAt') ?? row.updated_at,
    created_by: text('createdBy') ?? row.created_by,
    updated_by: text('updatedBy') ?? row.updated_by,
  };
}
