// The routes of public keys. Bodies are checked by the operations, which name every fault at once; a
// key's value is shown once, when it is issued.
// Contract: interface#public-key, decisions#keys.
import { Type } from '@sinclair/typebox';
import { Elysia, t } from 'elysia';
import type { App } from '../app.ts';
import { guard } from '../http/guard.ts';
import { closed, closedChange, describe, Revoked, Timestamp, Uuid } from '../http/openapi.ts';
import { created, ok } from '../http/reply.ts';
import { LIMITS } from '../limits.ts';
import type { JsonObject } from '../runtime/text.ts';
import { issuePublicKey, listPublicKeys, PUBLIC_KEY_SCOPES, revokePublicKey, updatePublicKey } from './public-keys.ts';

const { ttlDays: TTL_DAYS, perMinute: PER_MINUTE, perDay: PER_DAY, originsMax } = LIMITS.publicKey;

const Label = Type.String({ minLength: 1, maxLength: LIMITS.key.labelMax, examples: ['web site'] });
const Scopes = Type.Array(Type.Union(PUBLIC_KEY_SCOPES.map((scope) => Type.Literal(scope))), {
  minItems: 1,
  examples: [['records:read']],
});
const Origins = Type.Array(Type.String(), {
  maxItems: originsMax,
  description: 'where browsers may use the key; compared as text with the Origin header',
  examples: [['https://app.example.com']],
});
const PerMinute = Type.Integer({ minimum: 1, maximum: PER_MINUTE.max, examples: [PER_MINUTE.default] });
const PerDay = Type.Integer({ minimum: 1, maximum: PER_DAY.max, examples: [PER_DAY.default] });

const Key = {
  id: Uuid,
  keyPrefix: Type.String({ examples: ['svc_pk_0f3a9c1d2'] }),
  label: Label,
  roleId: Uuid,
  scopes: Scopes,
  allowedOrigins: Origins,
  rateLimitPerMin: PerMinute,
  rateLimitPerDay: PerDay,
  expiresAt: Timestamp,
  createdAt: Timestamp,
};
const KeySchema = Type.Object(Key, { $id: 'PublicKey' });
const IssuedSchema = Type.Object(
  { ...Key, key: Type.String({ description: 'shown once', examples: ['svc_pk_...'] }) },
  { $id: 'IssuedPublicKey' },
);
const KeyInput = {
  label: Label,
  roleId: Uuid,
  scopes: Scopes,
  ttlDays: Type.Optional(
    Type.Integer({ minimum: 1, maximum: TTL_DAYS.max, default: TTL_DAYS.default, description: 'days from now' }),
  ),
  allowedOrigins: Type.Optional(Origins),
  rateLimitPerMin: Type.Optional(PerMinute),
  rateLimitPerDay: Type.Optional(PerDay),
};

const TAG = 'Public keys';
const Params = t.Object({ id: t.String() });
const access = 'admin' as const;
const writing = { access, json: true, body: t.Object({}, { additionalProperties: true }) } as const;

export function publicKeyRoutes(app: App) {
  return new Elysia({ name: 'public-keys' })
    .use(guard(app))
    .get('/api/auth/public-keys', async ({ caller }) => ok(await listPublicKeys(app, caller)), { access, detail: LIST })
    .post(
      '/api/auth/public-keys',
      async ({ caller, body }) => created(await issuePublicKey(app, caller, body as JsonObject)),
      { ...writing, detail: CREATE },
    )
    .patch(
      '/api/auth/public-keys/:id',
      async ({ caller, params, body }) => ok(await updatePublicKey(app, caller, params.id, body as JsonObject)),
      { ...writing, params: Params, detail: UPDATE },
    )
    .delete(
      '/api/auth/public-keys/:id',
      async ({ caller, params }) => {
        await revokePublicKey(app, caller, params.id);
        return ok({ id: params.id.toLowerCase(), revoked: true });
      },
      { access, params: Params, detail: REVOKE },
    );
}

const LIST = describe({
  id: 'listPublicKeys',
  tag: TAG,
  summary: 'List public keys',
  ok: [200, Type.Array(KeySchema)],
});
const CREATE = describe({
  id: 'createPublicKey',
  tag: TAG,
  summary: 'Issue a public key',
  ok: [201, IssuedSchema],
  body: closed(KeyInput),
});
const UPDATE = describe({
  id: 'updatePublicKey',
  tag: TAG,
  summary: 'Change a public key',
  description: 'Changes the members given, within a second; `ttlDays` counts anew from now.',
  ok: [200, KeySchema],
  body: closedChange(KeyInput),
});
const REVOKE = describe({ id: 'revokePublicKey', tag: TAG, summary: 'Revoke a public key', ok: [200, Revoked] });
