// The routes of public keys, all for tenant admins: list, issue, change, revoke.
// Failures: 400 with every problem, 404.
// Contract: interface#public-key, decisions#keys.
import { Elysia } from 'elysia';
import type { App } from '../app.ts';
import { guard } from '../http/guard.ts';
import { created, ok } from '../http/reply.ts';
import { route } from '../http/route.ts';
import { FOR_ADMINS, keyRoutes } from './key-routes.ts';
import {
  issuePublicKey,
  listPublicKeys,
  NewPublicKey,
  PUBLIC_KEYS,
  PublicKeyChange,
  revokePublicKey,
  updatePublicKey,
} from './public-keys.ts';

const TAG = 'Public keys';
const { LIST, CREATE, REVOKE } = keyRoutes(PUBLIC_KEYS, {
  tag: TAG,
  access: FOR_ADMINS,
  body: NewPublicKey,
  one: 'a public key',
  many: 'public keys',
});
const UPDATE = route({
  id: 'updatePublicKey',
  tag: TAG,
  summary: 'Change a public key',
  description: 'Changes the given members, within a second; `ttlDays` counts from now.',
  access: 'admin',
  body: PublicKeyChange,
  ok: [200, PUBLIC_KEYS.schema],
});

const KEYS = '/api/auth/public-keys';
const KEY = '/api/auth/public-keys/:id';

export function publicKeyRoutes(app: App) {
  return new Elysia({ name: 'public-keys' })
    .use(guard(app))
    .get(KEYS, async ({ caller }) => ok(await listPublicKeys(app, caller)), LIST)
    .post(KEYS, async ({ caller, body }) => created(await issuePublicKey(app, caller, body)), CREATE)
    .patch(KEY, async ({ caller, params, body }) => ok(await updatePublicKey(app, caller, params.id, body)), UPDATE)
    .delete(KEY, async ({ caller, params }) => ok(await revokePublicKey(app, caller, params.id)), REVOKE);
}
