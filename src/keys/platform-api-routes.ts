// The routes of platform APIs and of their keys, all for tenant admins.
// A key's value is shown once, when it is issued.
// Contract: interface#platform-key, decisions#keys.
import { Type } from '@sinclair/typebox';
import { Elysia } from 'elysia';
import type { App } from '../app.ts';
import { okList } from '../http/bounded-response.ts';
import { guard } from '../http/guard.ts';
import { created, ok } from '../http/reply.ts';
import { route } from '../http/route.ts';
import { Deleted } from '../http/schemas.ts';
import { FOR_ADMINS, keyRoutes } from './key-routes.ts';
import {
  createPlatformApi,
  deleteApi,
  getApi,
  listApis,
  PlatformApiChange,
  PlatformApiDefinition,
  PlatformApiSchema,
  updateApi,
} from './platform-apis.ts';
import {
  issuePlatformKey,
  listPlatformKeys,
  NewPlatformKey,
  PLATFORM_KEYS,
  revokePlatformKey,
} from './platform-keys.ts';

const APIS = '/api/apis';
const API = '/api/apis/:apiId';
const KEYS = '/api/apis/:apiId/keys';
const common = { tag: 'Platform APIs', access: 'admin' } as const;

const LIST = route({
  ...common,
  id: 'listPlatformApis',
  summary: 'List platform APIs',
  ok: [200, Type.Array(PlatformApiSchema)],
});
const CREATE = route({
  ...common,
  id: 'createPlatformApi',
  summary: 'Define a platform API',
  body: PlatformApiDefinition,
  example: {
    name: 'Shop',
    slug: 'shop',
    roles: ['partner'],
    permissions: { companies: { partner: ['read', 'update'] }, 'view:won-deals': { partner: ['read'] } },
  },
  ok: [201, PlatformApiSchema],
  errors: ['CONFLICT'],
});
const GET = route({ ...common, id: 'getPlatformApi', summary: 'Get a platform API', ok: [200, PlatformApiSchema] });
const UPDATE = route({
  ...common,
  id: 'updatePlatformApi',
  summary: 'Change a platform API',
  description: 'Changes the given members. The change takes effect on the API’s keys within a second.',
  body: PlatformApiChange,
  example: { name: 'Shops', roles: ['partner'], permissions: { '*': { partner: ['read'] } } },
  ok: [200, PlatformApiSchema],
  errors: ['CONFLICT'],
});
const DELETE = route({
  ...common,
  id: 'deletePlatformApi',
  summary: 'Delete a platform API with all its keys',
  ok: [200, Deleted],
});
const KEY_ROUTES = keyRoutes(PLATFORM_KEYS, {
  tag: common.tag,
  access: FOR_ADMINS,
  body: NewPlatformKey,
  example: { role: 'partner', label: 'web shop', ttlDays: 90 },
  one: 'a platform key',
  many: 'the keys of a platform API',
  isLimited: true,
});

export function platformApiRoutes(app: App) {
  return new Elysia({ name: 'platform-apis' })
    .use(guard(app))
    .get(APIS, async ({ caller }) => okList(await listApis(app, caller)), LIST)
    .post(APIS, async ({ caller, body }) => created(await createPlatformApi(app, caller, body)), CREATE)
    .get(API, async ({ caller, params }) => ok(await getApi(app, caller, params.apiId)), GET)
    .patch(API, async ({ caller, params, body }) => ok(await updateApi(app, caller, params.apiId, body)), UPDATE)
    .delete(API, async ({ caller, params }) => ok(await deleteApi(app, caller, params.apiId)), DELETE)
    .get(KEYS, async ({ caller, params }) => okList(await listPlatformKeys(app, caller, params.apiId)), KEY_ROUTES.LIST)
    .post(
      KEYS,
      async ({ caller, params, body }) => created(await issuePlatformKey(app, caller, params.apiId, body)),
      KEY_ROUTES.CREATE,
    )
    .delete(
      `${KEYS}/:keyId`,
      async ({ caller, params }) => ok(await revokePlatformKey(app, caller, params.apiId, params.keyId)),
      KEY_ROUTES.REVOKE,
    );
}
