// The routes of owner API keys, which act as the owner of their tenant: list, issue, revoke. A key's
// value is shown once, when it is issued; lists show its beginning.
// Contract: section 3 of the decisions.
import { Type } from '@sinclair/typebox';
import { Elysia, t } from 'elysia';
import type { App } from '../app.ts';
import { invalidField } from '../errors.ts';
import { guard } from '../http/guard.ts';
import { describe, nullable, open, Revoked, Timestamp, Uuid } from '../http/openapi.ts';
import { created, ok } from '../http/reply.ts';
import { LIMITS } from '../limits.ts';
import { issueOwnerKey, listOwnerKeys, revokeOwnerKey } from './owner-keys.ts';

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

const CREATE = {
  access: 'admin',
  json: true,
  body: open({
    label: t.String({
      minLength: 1,
      maxLength: LIMITS.key.labelMax,
      error: 'must be a text of 1 to 100 characters',
      examples: ['nightly import'],
    }),
    expiresAt: t.Optional(
      t.Union([t.String(), t.Null()], {
        error: 'must be an ISO 8601 timestamp',
        description: 'ISO 8601, in the future; without it the key does not expire',
        examples: ['2030-01-01T00:00:00.000Z'],
      }),
    ),
  }),
  detail: describe({ id: 'createOwnerKey', tag: TAG, summary: 'Create an owner API key', ok: [201, IssuedSchema] }),
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
      async ({ caller, body: { label, expiresAt } }) => {
        const expires = expiresAt == null ? undefined : futureTime(expiresAt);
        const key = { label, expiresAt: expires, createdBy: caller.id };
        return created(await issueOwnerKey(app.db, caller.tenant.id, key));
      },
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

/** An ISO 8601 time to come, in its canonical form. 400 otherwise. */
function futureTime(text: string): string {
  const time = /^\d{4}-\d{2}-\d{2}/.test(text) ? new Date(text) : new Date(Number.NaN);
  if (Number.isNaN(time.getTime()) || time.getTime() <= Date.now()) {
    throw invalidField('expiresAt', 'must be an ISO 8601 timestamp in the future');
  }
  return time.toISOString();
}
