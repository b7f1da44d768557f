// The metrics route: the process's metrics for Prometheus, readable with METRICS_TOKEN as bearer token or by
// the super-admin; 401 and 403 otherwise. With several processes on the port, any of them returns the metrics of all.
// Contract: decisions#metrics, decisions#configuration.
import { Elysia } from 'elysia';
import { authenticate } from '../access/authenticate.ts';
import type { App } from '../app.ts';
import { forbidden, unauthorized } from '../errors.ts';
import { guard } from '../http/guard.ts';
import { ANY_PARAMETERS } from '../http/parameters.ts';
import { route } from '../http/route.ts';
import { matchesSecret } from '../runtime/tokens.ts';
import { registerTenantMetrics } from './tenant-metrics.ts';

const TYPE = 'text/plain; version=0.0.4; charset=utf-8';

const METRICS = route({
  id: 'getMetrics',
  tag: 'Operations',
  summary: 'Metrics for Prometheus',
  description:
    'Text format 0.0.4; with several processes on the port, each sample has a label `process`. Also readable with METRICS_TOKEN as bearer token, if configured.',
  access: 'open',
  query: ANY_PARAMETERS,
  admits: { 'x-access': 'super', security: [{ adminSecret: [] }, { bearer: [] }] },
  ok: [200, 'text/plain'],
});

export function metricsRoutes(app: App) {
  registerTenantMetrics(app);
  return new Elysia({ name: 'metrics' }).use(guard(app)).get(
    '/metrics',
    async ({ request }) => {
      await admitReader(app, request);
      return new Response(await app.metrics.render(), {
        headers: { 'content-type': TYPE, 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' },
      });
    },
    METRICS,
  );
}

async function admitReader(app: App, request: Request): Promise<void> {
  const { metricsToken } = app.config;
  const bearer = /^Bearer +(\S+)$/i.exec(request.headers.get('authorization') ?? '')?.[1];
  if (metricsToken !== null && bearer !== undefined && matchesSecret(bearer, [metricsToken])) return;
  const caller = await authenticate(app, request);
  if (caller === null) throw unauthorized();
  if (caller.kind !== 'super_admin') throw forbidden();
}
