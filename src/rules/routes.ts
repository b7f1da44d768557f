// The routes of business rules, all for tenant admins: their definitions, and a dry run that changes nothing.
// Failures: 400 that names every problem, 404, 409.
// Contract: decisions#rules.
import { Type } from '@sinclair/typebox';
import { Elysia } from 'elysia';
import type { App } from '../app.ts';
import { okList } from '../http/bounded-response.ts';
import { DRY_RUN, runOrTry } from '../http/dry-run.ts';
import { guard } from '../http/guard.ts';
import { parameters } from '../http/parameters.ts';
import { created, ok } from '../http/reply.ts';
import { route } from '../http/route.ts';
import { Deleted } from '../http/schemas.ts';
import { DryRunRequest, DryRunSchema, NewRule, RuleChange, RuleSchema } from './definition.ts';
import { testRule } from './dry-run.ts';
import { createRule, deleteRule, getRule, listRules, updateRule } from './rules.ts';

const RULES = '/api/rules';
const RULE = '/api/rules/:id';
const common = { tag: 'Rules', access: 'admin' } as const;

const LIST = route({
  ...common,
  id: 'listRules',
  summary: 'List business rules in execution order',
  query: parameters({ entity: Type.Optional(Type.String({ description: 'only rules of this entity' })) }),
  ok: [200, Type.Array(RuleSchema)],
});
const CREATE = route({
  ...common,
  id: 'createRule',
  summary: 'Create a business rule',
  description: `\`before\` rules run in the write itself; \`after\` rules run once per change after its commit, as the system.
Their changes trigger rules in turn, up to depth 5.`,
  query: parameters(DRY_RUN),
  body: NewRule,
  example: {
    name: 'won is won',
    entity: 'deals',
    trigger: 'before_update',
    condition: '$old.stage = won AND $changed.stage',
    action: { type: 'reject', message: 'a won deal stays won' },
    priority: 10,
  },
  ok: [201, RuleSchema],
  errors: ['CONFLICT'],
});
const GET = route({ ...common, id: 'getRule', summary: 'Get a business rule', ok: [200, RuleSchema] });
const UPDATE = route({
  ...common,
  id: 'updateRule',
  summary: 'Change a business rule',
  query: parameters(DRY_RUN),
  body: RuleChange,
  example: { name: 'won stays won', priority: 20, isActive: true },
  ok: [200, RuleSchema],
  errors: ['CONFLICT'],
});
const DELETE = route({
  ...common,
  id: 'deleteRule',
  summary: 'Delete a business rule',
  query: parameters(DRY_RUN),
  ok: [200, Deleted],
});
const TEST = route({
  ...common,
  id: 'testRule',
  summary: 'Try a business rule on a record',
  description:
    'Returns whether the condition matches, and the action with its placeholders filled in; changes nothing.',
  body: DryRunRequest,
  example: { record: { stage: 'lost' }, old: { stage: 'won' } },
  ok: [200, DryRunSchema],
});

export function ruleRoutes(app: App) {
  return new Elysia({ name: 'rules' })
    .use(guard(app))
    .get(RULES, async ({ caller, query }) => okList(await listRules(app, caller, query.entity)), LIST)
    .post(
      RULES,
      async ({ caller, query, body }) =>
        runOrTry(app, { caller, query }, async (used) => created(await createRule(used, caller, body))),
      CREATE,
    )
    .get(RULE, async ({ caller, params }) => ok(await getRule(app, caller, params.id)), GET)
    .patch(
      RULE,
      async ({ caller, params, query, body }) =>
        runOrTry(app, { caller, query }, async (used) => ok(await updateRule(used, caller, params.id, body))),
      UPDATE,
    )
    .delete(
      RULE,
      async ({ caller, params, query }) =>
        runOrTry(app, { caller, query }, async (used) =>
          ok({ id: await deleteRule(used, caller, params.id), deleted: true }),
        ),
      DELETE,
    )
    .post(
      '/api/rules/:id/test',
      async ({ caller, params, body }) => ok(await testRule(app, caller, params.id, body)),
      TEST,
    );
}
