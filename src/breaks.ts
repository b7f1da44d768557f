// What a change of definitions breaks, for its dry run: views, roles and rules that no longer fit, that go with their entity,
// or that lose what they grant or show; and records that lose values. Compares the definitions before and after the change,
// both as the change's own transaction sees them.
// Contract: trying#breaks.
import type { TenantCaller } from './access/caller.ts';
import { type Role, rolesOf } from './access/role-store.ts';
import type { App } from './app.ts';
import { countRecords, countValues } from './entities/backfill.ts';
import { type Catalog, catalogOf } from './entities/catalog.ts';
import type { Entity } from './entities/field.ts';
import { type Problem, ServiceError } from './errors.ts';
import { type RuleDefinition, readRule } from './rules/definition.ts';
import { listRules } from './rules/rules.ts';
import type { Break, DryRun } from './runtime/dry-run.ts';
import { giveWay } from './runtime/event-loop.ts';
import { roleProblems } from './users/role-input.ts';
import { dslProblems } from './views/dsl.ts';
import type { View } from './views/view.ts';
import { listViews } from './views/views.ts';

/** The definitions of a tenant, and what depends on them. */
interface Definitions {
  catalog: Catalog;
  views: readonly View[];
  roles: readonly Role[];
  rules: readonly RuleDefinition[];
}

/** Called before a change; resolves to a function that notes the breaks after it. */
export async function findBreaks(app: App, caller: TenantCaller, dryRun: DryRun): Promise<() => Promise<void>> {
  const before = await definitionsOf(app, caller);
  return async () => {
    const after = await definitionsOf(app, caller);
    const found = [
      viewBreaks(caller, before, after),
      roleBreaks(caller, before, after),
      ruleBreaks(caller, before, after),
    ];
    for (const breaks of found) for await (const one of breaks) dryRun.breaks.push(one);
    for await (const one of recordBreaks(app, before.catalog, after.catalog)) dryRun.breaks.push(one);
  };
}

async function definitionsOf(app: App, caller: TenantCaller): Promise<Definitions> {
  const catalog = await catalogOf(app, caller.tenant);
  const roles = [...(await rolesOf(app, caller.tenant)).byName.values()];
  return { catalog, views: await listViews(app, caller), roles, rules: await listRules(app, caller) };
}

async function* viewBreaks(caller: TenantCaller, before: Definitions, after: Definitions): AsyncGenerator<Break> {
  for (const view of before.views) {
    await giveWay();
    const { slug: name, entitySlug } = view;
    const now = after.views.find(({ id }) => id === view.id);
    if (now === undefined) {
      if (!after.catalog.byName.has(entitySlug)) yield { kind: 'view', name, text: `goes with ${entitySlug}` };
      continue;
    }
    const faultsOf = ({ filterDsl }: View, { catalog }: Definitions): Problem[] =>
      dslProblems(filterDsl, catalog, caller, catalog.byName.get(entitySlug) as Entity);
    const faults = faultsOf(now, after);
    if (faults.length > 0 && faultsOf(view, before).length === 0) yield { kind: 'view', name, text: sentence(faults) };
  }
}

async function* ruleBreaks(caller: TenantCaller, before: Definitions, after: Definitions): AsyncGenerator<Break> {
  for (const rule of before.rules) {
    await giveWay();
    const { name, entity } = rule;
    const now = after.rules.find(({ id }) => id === rule.id);
    if (now === undefined) {
      if (!after.catalog.byName.has(entity)) yield { kind: 'rule', name, text: `goes with ${entity}` };
      continue;
    }
    const fault = await ruleFault(caller, now, after);
    if (fault !== null && (await ruleFault(caller, rule, before)) === null) yield { kind: 'rule', name, text: fault };
  }
}

/** Null if the rule fits the definitions. */
async function ruleFault(caller: TenantCaller, rule: RuleDefinition, { catalog }: Definitions): Promise<string | null> {
  const { id: _, createdAt, updatedAt, ...definition } = rule;
  try {
    await readRule(catalog, caller, definition);
    return null;
  } catch (error) {
    if (!(error instanceof ServiceError) || error.ecode !== 'VALIDATION_ERROR') throw error;
    return error.details === undefined ? error.message : sentence(error.details);
  }
}

async function* roleBreaks(caller: TenantCaller, before: Definitions, after: Definitions): AsyncGenerator<Break> {
  for (const role of before.roles) {
    await giveWay();
    const now = after.roles.find(({ id }) => id === role.id);
    if (now === undefined) continue;
    const lost = Object.keys(role.permissions).filter((resource) => now.permissions[resource] === undefined);
    const texts = lost.map((resource) => `loses its rights on ${resource}`);
    for (const [name, { fields = [] }] of Object.entries(role.entities)) {
      const entity = after.catalog.byName.get(name);
      const dropped = fields.filter((key) => isDropped(before.catalog.byName.get(name), entity, key));
      if (entity !== undefined) texts.push(...dropped.map((key) => `no longer shows ${key} of ${name}`));
    }
    const faults = roleProblems(now, after.catalog, caller);
    if (faults.length > 0 && roleProblems(role, before.catalog, caller).length === 0) texts.push(sentence(faults));
    if (texts.length > 0) yield { kind: 'role', name: role.name, text: texts.join('; ') };
  }
}

function isDropped(before: Entity | undefined, after: Entity | undefined, key: string): boolean {
  const field = before?.byKey.get(key);
  return field !== undefined && after?.fields.every(({ id }) => id !== field.id) === true;
}

async function* recordBreaks(app: App, before: Catalog, after: Catalog): AsyncGenerator<Break> {
  for (const entity of before.byId.values()) {
    await giveWay();
    const { name } = entity;
    const now = after.byId.get(entity.id);
    if (now === undefined) {
      const count = await countRecords(app.db.slow, entity);
      if (count > 0) yield { kind: 'record', name, text: 'are deleted', count };
      continue;
    }
    for (const field of entity.fields) {
      if (now.fields.some(({ id }) => id === field.id)) continue;
      const count = await countValues(app, entity, field, true);
      if (count > 0) yield { kind: 'record', name, text: `lose their value of ${field.key}`, count };
    }
  }
}

function sentence(problems: readonly Problem[]): string {
  return problems.map(({ path, message }) => `${path}: ${message}`).join('; ');
}
