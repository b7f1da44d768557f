// The routes of owner API keys, all for tenant admins: list, issue, revoke.
// Failures: 400 with every problem, 404.
// Contract: decisions#keys.
import { Elysia } from 'elysia';
import type { App } from '../app.ts';
import { guard } from '../http/guard.ts';
import { created, ok } from '../http/reply.ts';
import { FOR_ADMINS, keyRoutes } from './key-routes.ts';
import { createOwnerKey, listOwnerKeys, NewOwnerKey, OWNER_KEYS, revokeOwnerKey } from './owner-keys.ts';

const { LIST, CREATE, REVOKE } = keyRoutes(OWNER_KEYS, {
  tag: 'Owner keys',
  access: FOR_ADMINS,
  body: NewOwnerKey,
  one: 'an owner API key',
  many: 'owner API keys',
});

export function ownerKeyRoutes(app: App) {
  return new Elysia({ name: 'owner-keys' })
    .use(guard(app))
    .get('/api/keys', async ({ caller }) => ok(await listOwnerKeys(app, caller)), LIST)
    .post('/api/keys', async ({ caller, body }) => created(await createOwnerKey(app, caller, body)), CREATE)
    .delete('/api/keys/:id', async ({ caller, params }) => ok(await revokeOwnerKey(app, caller, params.id)), REVOKE);
}
