// The routes of public keys, all for tenant admins. A key's value is shown once, when it is issued.
// Failures: 400 with every problem, 404.
// Contract: interface#public-key, decisions#keys.
import { Type } from '@sinclair/typebox';
import { Elysia } from 'elysia';
import type { App } from '../app.ts';
import { guard } from '../http/guard.ts';
import { created, ok } from '../http/reply.ts';
import { route } from '../http/route.ts';
import { Revoked } from '../http/schemas.ts';
import {
  IssuedPublicKey,
  issuePublicKey,
  listPublicKeys,
  NewPublicKey,
  PublicKeyChange,
  PublicKeySchema,
  revokePublicKey,
  updatePublicKey,
} from './public-keys.ts';

const KEYS = '/api/auth/public-keys';
const KEY = '/api/auth/public-keys/:id';
const common = { tag: 'Public keys', access: 'admin' } as const;

const LIST = route({
  ...common,
  id: 'listPublicKeys',
  summary: 'List public keys',
  ok: [200, Type.Array(PublicKeySchema)],
});
const CREATE = route({
  ...common,
  id: 'createPublicKey',
  summary: 'Issue a public key',
  body: NewPublicKey,
  ok: [201, IssuedPublicKey],
});
const UPDATE = route({
  ...common,
  id: 'updatePublicKey',
  summary: 'Change a public key',
  description: 'Changes the members given, within a second; `ttlDays` counts from now.',
  body: PublicKeyChange,
  ok: [200, PublicKeySchema],
});
const REVOKE = route({ ...common, id: 'revokePublicKey', summary: 'Revoke a public key', ok: [200, Revoked] });

export function publicKeyRoutes(app: App) {
  return new Elysia({ name: 'public-keys' })
    .use(guard(app))
    .get(KEYS, async ({ caller }) => ok(await listPublicKeys(app, caller)), LIST)
    .post(KEYS, async ({ caller, body }) => created(await issuePublicKey(app, caller, body)), CREATE)
    .patch(KEY, async ({ caller, params, body }) => ok(await updatePublicKey(app, caller, params.id, body)), UPDATE)
    .delete(
      KEY,
      async ({ caller, params }) => {
        await revokePublicKey(app, caller, params.id);
        return ok({ id: params.id.toLowerCase(), revoked: true });
      },
      REVOKE,
    );
}
