// The route that explains an access decision, for tenant admins.
// Failures: 400 with every problem.
// Contract: decisions#explanations.
import { Elysia } from 'elysia';
import type { App } from '../app.ts';
import { guard } from '../http/guard.ts';
import { ok } from '../http/reply.ts';
import { route } from '../http/route.ts';
import { ExplanationSchema, explain, Question } from './explain.ts';

const EXPLAIN = route({
  id: 'explainAccess',
  tag: 'Roles',
  summary: 'Explain why a credential or role may do something, or not',
  description: `Asks what decides: whether the credential or role in \`as\` may use the operation on the entity, or on the one record of
it, over the channel; which part of the configuration decided that, and what to change. Nothing is read or written
in its name.`,
  access: 'admin',
  body: Question,
  example: { as: { role: 'partner' }, operation: 'read', entity: 'deals' },
  ok: [200, ExplanationSchema],
});

export function explainRoutes(app: App) {
  return new Elysia({ name: 'explain' })
    .use(guard(app))
    .post('/api/access/explain', async ({ caller, body }) => ok(await explain(app, caller, body)), EXPLAIN);
}
