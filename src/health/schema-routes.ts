// Schema health over HTTP: check and repair, for the super-admin. 503 when Postgres is unavailable; faults that a repair could
// not fix are part of its 200 response.
// Contract: interface#schema-health.
import { type Static, Type } from '@sinclair/typebox';
import { Elysia } from 'elysia';
import type { App } from '../app.ts';
import { guard } from '../http/guard.ts';
import { mayTakeLong } from '../http/own-idle.ts';
import { ok } from '../http/reply.ts';
import { route } from '../http/route.ts';
import { nullable, oneOf, Timestamp } from '../http/schemas.ts';
import { CHECKS, toIssue } from './issues.ts';
import { checkSchemas } from './schema-check.ts';
import { repairSchemas } from './schema-repair.ts';

const Slug = Type.String({ examples: ['acme'] });
const Issue = Type.Object(
  {
    tenant: Slug,
    check: Type.Union(CHECKS.map((check) => Type.Literal(check))),
    table: nullable(Type.String({ examples: ['documents'] })),
    column: nullable(Type.String({ examples: ['content_text'] })),
    severity: oneOf(['critical', 'warning']),
    fix: Type.String({ examples: ['POST /health/schema/fix adds the column content_text to documents'] }),
  },
  { $id: 'SchemaIssue' },
);
const Count = Type.Integer({ minimum: 0, examples: [1] });
const Health = Type.Object(
  {
    status: oneOf(['healthy', 'degraded']),
    checked_at: Timestamp,
    tenants_checked: Count,
    tenants_healthy: Count,
    tenants_degraded: Count,
    issues: Type.Array(Issue),
  },
  { $id: 'SchemaHealth' },
);
const Repair = Type.Object(
  {
    fixed: Count,
    errors: Type.Array(
      Type.Object({ tenant: Slug, message: Type.String({ examples: ['still missing: extension_exists'] }) }),
    ),
  },
  { $id: 'SchemaRepair' },
);

const CHECK = route({
  id: 'checkSchemas',
  tag: 'Operations',
  summary: 'Check the schema of every tenant',
  description: 'Runs six checks per tenant. Each issue states its severity and how to fix it.',
  access: 'super',
  ok: [200, Health],
});
const FIX = route({
  id: 'repairSchemas',
  tag: 'Operations',
  summary: 'Repair the schema of every degraded tenant',
  description:
    'Restores the missing parts of degraded schemas. Idempotent; loses no data. `fixed` is the number of repaired tenants; `errors` lists those that could not be repaired.',
  access: 'super',
  ok: [200, Repair],
});

export function schemaHealthRoutes(app: App) {
  return new Elysia({ name: 'schema health' })
    .use(guard(app))
    .get('/health/schema', async () => ok(await schemaHealth(app)), CHECK)
    .post(
      '/health/schema/fix',
      async ({ request }) => ok(await mayTakeLong(app, request, () => repairSchemas(app))),
      FIX,
    );
}

async function schemaHealth(app: App): Promise<Static<typeof Health>> {
  const checkedAt = new Date().toISOString();
  const tenants = await checkSchemas(app);
  const degraded = tenants.filter(({ findings }) => findings.length > 0);
  return {
    status: degraded.length === 0 ? 'healthy' : 'degraded',
    checked_at: checkedAt,
    tenants_checked: tenants.length,
    tenants_healthy: tenants.length - degraded.length,
    tenants_degraded: degraded.length,
    issues: degraded.flatMap(({ slug, findings }) => findings.map((finding) => toIssue(slug, finding))),
  };
}
