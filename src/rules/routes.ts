// The routes of business rules, all for tenant admins: their definitions, and a dry run that changes nothing.
// Failures: 400 that names every problem, 404, 409.
// Contract: decisions#rules.
import { Type } from '@sinclair/typebox';
import { Elysia, t } from 'elysia';
import type { App } from '../app.ts';
import { PRIORITIES, TRIGGERS } from '../entities/rule.ts';
import { guard } from '../http/guard.ts';
import { Deleted, describe, nullable, open, Timestamp, Uuid } from '../http/openapi.ts';
import { created, ok } from '../http/reply.ts';
import type { JsonObject } from '../runtime/text.ts';
import { testRule } from './dry-run.ts';
import { createRule, deleteRule, getRule, listRules, updateRule } from './rules.ts';

const Values = Type.Object(
  {},
  {
    additionalProperties: true,
    description: 'values by field key; texts may hold `{{field}}`',
    examples: [{ status: 'open' }],
  },
);
const type = <T extends string>(name: T) => Type.Literal(name);
const ActionSchema = Type.Union(
  [
    Type.Object({ type: type('reject'), message: Type.String() }),
    Type.Object({ type: type('set'), values: Values }),
    Type.Object({ type: type('create_record'), entity: Type.String(), values: Values }),
    Type.Object({ type: type('update_record'), values: Values }),
    Type.Object({
      type: type('send_message'),
      to_agent: Type.String({ description: 'a bot, by name or id' }),
      subject: Type.String(),
      body: Type.String(),
      priority: Type.Optional(Type.Unsafe<string>({ type: 'string', enum: [...PRIORITIES] })),
    }),
  ],
  {
    description: '`reject` and `set` before, the others after the change',
    examples: [{ type: 'reject', message: 'a closed task stays closed' }],
  },
);
const Definition = {
  name: Type.String({ examples: ['closed is closed'] }),
  entity: Type.String({ examples: ['task'] }),
  trigger: Type.Unsafe<string>({ type: 'string', enum: [...TRIGGERS], examples: ['before_update'] }),
  condition: nullable(
    Type.String({
      description: '`$old.field` is the record before, `$changed.field` whether it changes',
      examples: ['$old.status = closed AND $changed.status'],
    }),
  ),
  action: ActionSchema,
  priority: Type.Integer({ description: 'lower ones act first', examples: [0] }),
  isActive: Type.Boolean({ examples: [true] }),
};
const RuleSchema = Type.Object(
  { id: Uuid, ...Definition, createdAt: Timestamp, updatedAt: Timestamp },
  { $id: 'Rule' },
);
const { condition, priority, isActive, ...needed } = Definition;
const optional = {
  condition: Type.Optional(condition),
  priority: Type.Optional(priority),
  isActive: Type.Optional(isActive),
};
const NewRule = open({ ...needed, ...optional });
const DryRunSchema = Type.Object({
  matches: Type.Boolean({ examples: [true] }),
  action: nullable(ActionSchema),
});

const TAG = 'Rules';
const RULES = '/api/rules';
const RULE = '/api/rules/:id';
const access = 'admin' as const;
const params = t.Object({ id: t.String() });
const taking = { access, json: true, body: t.Object({}, { additionalProperties: true }) } as const;

export function ruleRoutes(app: App) {
  return new Elysia({ name: 'rules' })
    .use(guard(app))
    .get(RULES, async ({ caller, query }) => ok(await listRules(app, caller, query.entity)), LIST)
    .post(RULES, async ({ caller, body }) => created(await createRule(app, caller, body as JsonObject)), {
      ...taking,
      detail: CREATE,
    })
    .get(RULE, async ({ caller, params: { id } }) => ok(await getRule(app, caller, id)), {
      access,
      params,
      detail: GET,
    })
    .patch(
      RULE,
      async ({ caller, params: { id }, body }) => ok(await updateRule(app, caller, id, body as JsonObject)),
      { ...taking, params, detail: UPDATE },
    )
    .delete(RULE, async ({ caller, params: { id } }) => ok({ id: await deleteRule(app, caller, id), deleted: true }), {
      access,
      params,
      detail: DELETE,
    })
    .post(
      '/api/rules/:id/test',
      async ({ caller, params: { id }, body }) => ok(await testRule(app, caller, id, body as JsonObject)),
      { ...taking, params, detail: TEST },
    );
}

const LIST = {
  access,
  query: t.Object({ entity: t.Optional(t.String({ description: 'the rules of this entity only' })) }),
  detail: describe({
    id: 'listRules',
    tag: TAG,
    summary: 'List business rules in the order in which they act',
    ok: [200, Type.Array(RuleSchema)],
    errors: ['NOT_FOUND'],
  }),
} as const;
const CREATE = describe({
  id: 'createRule',
  tag: TAG,
  summary: 'Create a business rule',
  description: `\`before\` rules act in the write itself; \`after\` rules once each when it is committed, as the system. What they
change triggers rules in turn, up to depth 5.`,
  body: NewRule,
  ok: [201, RuleSchema],
  errors: ['CONFLICT'],
});
const GET = describe({ id: 'getRule', tag: TAG, summary: 'Get a business rule', ok: [200, RuleSchema] });
const UPDATE = describe({
  id: 'updateRule',
  tag: TAG,
  summary: 'Change a business rule',
  body: Type.Partial(NewRule),
  ok: [200, RuleSchema],
});
const DELETE = describe({ id: 'deleteRule', tag: TAG, summary: 'Delete a business rule', ok: [200, Deleted] });
const TEST = describe({
  id: 'testRule',
  tag: TAG,
  summary: 'Try a business rule on a record',
  description: 'Says whether the condition holds and what the action would do; changes nothing.',
  body: open({ record: Values, old: Type.Optional(Values) }),
  ok: [200, DryRunSchema],
});
