// The routes of owner API keys, which act as the owner of their tenant: list, issue, revoke. A key's
// value is shown once, when it is issued; lists show its beginning.
// Contract: decisions#keys.
import { Type } from '@sinclair/typebox';
import { Elysia } from 'elysia';
import type { App } from '../app.ts';
import { guard } from '../http/guard.ts';
import { created, ok } from '../http/reply.ts';
import { route } from '../http/route.ts';
import { Revoked } from '../http/schemas.ts';
import {
  createOwnerKey,
  IssuedOwnerKey,
  listOwnerKeys,
  NewOwnerKey,
  OwnerKeySchema,
  revokeOwnerKey,
} from './owner-keys.ts';

const common = { tag: 'Owner keys', access: 'admin' } as const;

const LIST = route({
  ...common,
  id: 'listOwnerKeys',
  summary: 'List owner API keys',
  ok: [200, Type.Array(OwnerKeySchema)],
});
const CREATE = route({
  ...common,
  id: 'createOwnerKey',
  summary: 'Create an owner API key',
  body: NewOwnerKey,
  ok: [201, IssuedOwnerKey],
});
const REVOKE = route({ ...common, id: 'revokeOwnerKey', summary: 'Revoke an owner API key', ok: [200, Revoked] });

export function ownerKeyRoutes(app: App) {
  return new Elysia({ name: 'owner-keys' })
    .use(guard(app))
    .get('/api/keys', async ({ caller }) => ok(await listOwnerKeys(app, caller)), LIST)
    .post('/api/keys', async ({ caller, body }) => created(await createOwnerKey(app, caller, body)), CREATE)
    .delete(
      '/api/keys/:id',
      async ({ caller, params }) => {
        await revokeOwnerKey(app, caller, params.id);
        return ok({ id: params.id.toLowerCase(), revoked: true });
      },
      REVOKE,
    );
}
