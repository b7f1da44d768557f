// The routes of owner API keys, which act as the owner of their tenant: list, issue, revoke. A key's
// value is shown once, when it is issued; lists show its beginning. Bodies are checked by the operations.
// Contract: decisions#tenants.
import { Type } from '@sinclair/typebox';
import { Elysia, t } from 'elysia';
import type { App } from '../app.ts';
import { guard } from '../http/guard.ts';
import { closed, describe, nullable, Revoked, Timestamp, Uuid } from '../http/openapi.ts';
import { created, ok } from '../http/reply.ts';
import { LIMITS } from '../limits.ts';
import type { JsonObject } from '../runtime/text.ts';
import { createOwnerKey, listOwnerKeys, revokeOwnerKey } from './owner-keys.ts';

const Key = {
  id: Uuid,
  keyPrefix: Type.String({ examples: ['svc_ak_9fQ2'] }),
  label: Type.String({ examples: ['nightly import'] }),
  expiresAt: nullable(Timestamp),
  createdAt: Timestamp,
};
const KeySchema = Type.Object(Key, { $id: 'OwnerKey' });
const IssuedSchema = Type.Object(
  { ...Key, key: Type.String({ description: 'shown once', examples: ['svc_ak_9fQ2...'] }) },
  { $id: 'IssuedOwnerKey' },
);

const TAG = 'Owner keys';

const LIST = {
  access: 'admin',
  detail: describe({ id: 'listOwnerKeys', tag: TAG, summary: 'List owner API keys', ok: [200, Type.Array(KeySchema)] }),
} as const;

const KeyInput = closed({
  label: Type.String({ minLength: 1, maxLength: LIMITS.key.labelMax, examples: ['nightly import'] }),
  expiresAt: Type.Optional(
    nullable(
      Type.String({
        description: 'ISO 8601, in the future; without it the key does not expire',
        examples: ['2030-01-01T00:00:00.000Z'],
      }),
    ),
  ),
});

const CREATE = {
  access: 'admin',
  json: true,
  body: t.Object({}, { additionalProperties: true }),
  detail: describe({
    id: 'createOwnerKey',
    tag: TAG,
    summary: 'Create an owner API key',
    ok: [201, IssuedSchema],
    body: KeyInput,
  }),
} as const;

const REVOKE = {
  access: 'admin',
  params: t.Object({ id: t.String() }),
  detail: describe({ id: 'revokeOwnerKey', tag: TAG, summary: 'Revoke an owner API key', ok: [200, Revoked] }),
} as const;

export function ownerKeyRoutes(app: App) {
  return new Elysia({ name: 'owner-keys' })
    .use(guard(app))
    .get('/api/keys', async ({ caller }) => ok(await listOwnerKeys(app, caller)), LIST)
    .post(
      '/api/keys',
      async ({ caller, body }) => created(await createOwnerKey(app, caller, body as JsonObject)),
      CREATE,
    )
    .delete(
      '/api/keys/:id',
      async ({ caller, params }) => {
        await revokeOwnerKey(app, caller, params.id);
        return ok({ id: params.id.toLowerCase(), revoked: true });
      },
      REVOKE,
    );
}
