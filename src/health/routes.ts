// Liveness and readiness. `/health` does no I/O; `/ready` queries Postgres and the broker, and answers 503
// while starting, shutting down or without one of them. Neither needs a credential.
// Contract: decisions#operations.
import { Type } from '@sinclair/typebox';
import { Elysia } from 'elysia';
import type { App } from '../app.ts';
import { unavailable } from '../errors.ts';
import { guard } from '../http/guard.ts';
import { ANY_PARAMETERS } from '../http/parameters.ts';
import { ok } from '../http/reply.ts';
import { route } from '../http/route.ts';
import { within } from '../runtime/within.ts';

const Status = Type.Object({ status: Type.Literal('ok') });
const READY_WITHIN_MS = 3_000;

const HEALTH = route({
  id: 'health',
  tag: 'Operations',
  summary: 'Whether the process is running',
  access: 'open',
  query: ANY_PARAMETERS,
  ok: [200, Status],
});
const READY = route({
  id: 'ready',
  tag: 'Operations',
  summary: 'Whether the process can serve requests',
  access: 'open',
  query: ANY_PARAMETERS,
  ok: [200, Status],
  errors: ['SERVICE_UNAVAILABLE'],
});

export function healthRoutes(app: App) {
  return new Elysia({ name: 'health' })
    .use(guard(app))
    .get('/health', async () => ok({ status: 'ok' }), HEALTH)
    .get('/ready', async () => ok(await readiness(app)), READY);
}

async function readiness(app: App): Promise<{ status: 'ok' }> {
  if (!app.isReady) throw unavailable('starting or shutting down');
  const [database, broker] = await Promise.allSettled([
    within(READY_WITHIN_MS, app.db.ping()),
    within(READY_WITHIN_MS, app.broker.ping()),
  ]);
  const failed = [database.status === 'rejected' ? 'Postgres' : '', broker.status === 'rejected' ? 'Redis' : ''];
  const names = failed.filter((name) => name !== '').join(' and ');
  if (names !== '') throw unavailable(`${names} cannot be reached`);
  return { status: 'ok' };
}
