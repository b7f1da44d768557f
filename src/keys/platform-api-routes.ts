// The routes of platform APIs and of their keys. Bodies are checked by the operations, which name
// every fault at once; a key's value is shown once, when it is issued.
// Contract: decisions#keys.
import { Type } from '@sinclair/typebox';
import { Elysia, t } from 'elysia';
import type { App } from '../app.ts';
import { guard } from '../http/guard.ts';
import { closed, closedChange, Deleted, describe, nullable, Revoked, Timestamp, Uuid } from '../http/openapi.ts';
import { created, ok } from '../http/reply.ts';
import { LIMITS } from '../limits.ts';
import type { JsonObject } from '../runtime/text.ts';
import { API_SLUG, createPlatformApi, deleteApi, getApi, listApis, updateApi } from './platform-apis.ts';
import { issuePlatformKey, listPlatformKeys, revokePlatformKey } from './platform-keys.ts';

const Definition = {
  name: Type.String({ minLength: 1, maxLength: LIMITS.key.labelMax, examples: ['Shop'] }),
  slug: Type.String({ pattern: API_SLUG.source, examples: ['shop'] }),
  roles: Type.Array(Type.String(), {
    minItems: 1,
    maxItems: LIMITS.platformApi.rolesMax,
    description: 'each a role of the tenant, or a name that stands in `permissions`',
    examples: [['reader']],
  }),
  permissions: Type.Record(Type.String(), Type.Record(Type.String(), Type.Array(Type.String())), {
    description: 'operations by entity (or `*`, `view:<slug>`, `agent:<name>`) and role',
    examples: [{ '*': { reader: ['read'] } }],
  }),
};
const ApiSchema = Type.Object(
  { id: Uuid, ...Definition, createdAt: Timestamp, updatedAt: Timestamp },
  { $id: 'PlatformApi' },
);
const Key = {
  id: Uuid,
  apiId: Uuid,
  keyPrefix: Type.String({ examples: ['svc_pkey_0f3a9c1d2'] }),
  role: Type.String({ examples: ['reader'] }),
  label: nullable(Type.String({ examples: ['web shop'] })),
  expiresAt: nullable(Timestamp),
  createdAt: Timestamp,
};
const KeySchema = Type.Object(Key, { $id: 'PlatformKey' });
const IssuedSchema = Type.Object(
  { ...Key, key: Type.String({ description: 'shown once', examples: ['svc_pkey_...'] }) },
  { $id: 'IssuedPlatformKey' },
);
const KeyInput = closed({
  role: Type.String({ description: 'one of the API’s roles', examples: ['reader'] }),
  label: Type.Optional(Type.String({ minLength: 1, maxLength: LIMITS.key.labelMax, examples: ['web shop'] })),
  ttlDays: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: LIMITS.platformApi.ttlDaysMax,
      description: 'without it the key does not expire',
      examples: [90],
    }),
  ),
});

const TAG = 'Platform APIs';
const Anything = t.Object({}, { additionalProperties: true });
const ApiParams = t.Object({ apiId: t.String() });
const KeyParams = t.Object({ apiId: t.String(), keyId: t.String() });
const access = 'admin' as const;
const reading = { access, params: ApiParams } as const;
const writing = { access, json: true, body: Anything } as const;

export function platformApiRoutes(app: App) {
  return new Elysia({ name: 'platform-apis' }).use(definitions(app)).use(keys(app));
}

function definitions(app: App) {
  return new Elysia({ name: 'platform-api-definitions' })
    .use(guard(app))
    .get('/api/apis', async ({ caller }) => ok(await listApis(app, caller)), { access, detail: LIST })
    .post('/api/apis', async ({ caller, body }) => created(await createPlatformApi(app, caller, body as JsonObject)), {
      ...writing,
      detail: CREATE,
    })
    .get('/api/apis/:apiId', async ({ caller, params }) => ok(await getApi(app, caller, params.apiId)), {
      ...reading,
      detail: GET,
    })
    .patch(
      '/api/apis/:apiId',
      async ({ caller, params, body }) => ok(await updateApi(app, caller, params.apiId, body as JsonObject)),
      { ...writing, params: ApiParams, detail: UPDATE },
    )
    .delete(
      '/api/apis/:apiId',
      async ({ caller, params }) => {
        await deleteApi(app, caller, params.apiId);
        return ok({ id: params.apiId.toLowerCase(), deleted: true });
      },
      { ...reading, detail: DELETE },
    );
}

function keys(app: App) {
  return new Elysia({ name: 'platform-keys' })
    .use(guard(app))
    .get('/api/apis/:apiId/keys', async ({ caller, params }) => ok(await listPlatformKeys(app, caller, params.apiId)), {
      ...reading,
      detail: LIST_KEYS,
    })
    .post(
      '/api/apis/:apiId/keys',
      async ({ caller, params, body }) =>
        created(await issuePlatformKey(app, caller, params.apiId, body as JsonObject)),
      { ...writing, params: ApiParams, detail: CREATE_KEY },
    )
    .delete(
      '/api/apis/:apiId/keys/:keyId',
      async ({ caller, params }) => {
        await revokePlatformKey(app, caller, params.apiId, params.keyId);
        return ok({ id: params.keyId.toLowerCase(), revoked: true });
      },
      { access, params: KeyParams, detail: REVOKE_KEY },
    );
}

const LIST = describe({
  id: 'listPlatformApis',
  tag: TAG,
  summary: 'List platform APIs',
  ok: [200, Type.Array(ApiSchema)],
});
const CREATE = describe({
  id: 'createPlatformApi',
  tag: TAG,
  summary: 'Define a platform API',
  ok: [201, ApiSchema],
  body: closed(Definition),
  errors: ['CONFLICT'],
});
const GET = describe({ id: 'getPlatformApi', tag: TAG, summary: 'Get a platform API', ok: [200, ApiSchema] });
const UPDATE = describe({
  id: 'updatePlatformApi',
  tag: TAG,
  summary: 'Change a platform API',
  description: 'Changes the members given; the API’s keys follow within a second.',
  ok: [200, ApiSchema],
  body: closedChange(Definition),
  errors: ['CONFLICT'],
});
const DELETE = describe({
  id: 'deletePlatformApi',
  tag: TAG,
  summary: 'Delete a platform API with all its keys',
  ok: [200, Deleted],
});
const LIST_KEYS = describe({
  id: 'listPlatformKeys',
  tag: TAG,
  summary: 'List the keys of a platform API',
  ok: [200, Type.Array(KeySchema)],
});
const CREATE_KEY = describe({
  id: 'createPlatformKey',
  tag: TAG,
  summary: 'Issue a platform key',
  ok: [201, IssuedSchema],
  body: KeyInput,
});
const REVOKE_KEY = describe({
  id: 'revokePlatformKey',
  tag: TAG,
  summary: 'Revoke a platform key',
  ok: [200, Revoked],
});
