// The routes of owner API keys and public keys, all for tenant admins: list, issue, change, revoke.
// Failures: 400 with every problem, 404, 409 at the limit.
// Contract: interface#public-key, decisions#keys.
import { Elysia } from 'elysia';
import type { App } from '../app.ts';
import { okList } from '../http/bounded-response.ts';
import { guard } from '../http/guard.ts';
import { created, ok } from '../http/reply.ts';
import { route } from '../http/route.ts';
import { FOR_ADMINS, keyRoutes } from './key-routes.ts';
import { createOwnerKey, listOwnerKeys, NewOwnerKey, OWNER_KEYS, revokeOwnerKey } from './owner-keys.ts';
import {
  issuePublicKey,
  listPublicKeys,
  NewPublicKey,
  PUBLIC_KEYS,
  PublicKeyChange,
  revokePublicKey,
  updatePublicKey,
} from './public-keys.ts';

const OWNER = keyRoutes(OWNER_KEYS, {
  tag: 'Owner keys',
  access: FOR_ADMINS,
  body: NewOwnerKey,
  one: 'an owner API key',
  many: 'owner API keys',
  isLimited: true,
});

export function ownerKeyRoutes(app: App) {
  return new Elysia({ name: 'owner-keys' })
    .use(guard(app))
    .get('/api/keys', async ({ caller }) => okList(await listOwnerKeys(app, caller)), OWNER.LIST)
    .post('/api/keys', async ({ caller, body }) => created(await createOwnerKey(app, caller, body)), OWNER.CREATE)
    .delete(
      '/api/keys/:id',
      async ({ caller, params }) => ok(await revokeOwnerKey(app, caller, params.id)),
      OWNER.REVOKE,
    );
}

const PUBLIC = keyRoutes(PUBLIC_KEYS, {
  tag: 'Public keys',
  access: FOR_ADMINS,
  body: NewPublicKey,
  one: 'a public key',
  many: 'public keys',
  isLimited: true,
});
const UPDATE_PUBLIC = route({
  id: 'updatePublicKey',
  tag: 'Public keys',
  summary: 'Change a public key',
  description: 'Changes the given members, within a second; `ttlDays` counts from now.',
  access: 'admin',
  body: PublicKeyChange,
  ok: [200, PUBLIC_KEYS.schema],
});

const PUBLIC_PATH = '/api/auth/public-keys';
const PUBLIC_KEY_PATH = '/api/auth/public-keys/:id';

export function publicKeyRoutes(app: App) {
  return new Elysia({ name: 'public-keys' })
    .use(guard(app))
    .get(PUBLIC_PATH, async ({ caller }) => okList(await listPublicKeys(app, caller)), PUBLIC.LIST)
    .post(PUBLIC_PATH, async ({ caller, body }) => created(await issuePublicKey(app, caller, body)), PUBLIC.CREATE)
    .patch(
      PUBLIC_KEY_PATH,
      async ({ caller, params, body }) => ok(await updatePublicKey(app, caller, params.id, body)),
      UPDATE_PUBLIC,
    )
    .delete(
      PUBLIC_KEY_PATH,
      async ({ caller, params }) => ok(await revokePublicKey(app, caller, params.id)),
      PUBLIC.REVOKE,
    );
}
