// The routes of bots: register, identify, list, revoke, reset the secret. All of them need a tenant
// admin; a secret is shown once, when it is made.
// Contract: interface#identity.
import { Type } from '@sinclair/typebox';
import { Elysia, t } from 'elysia';
import type { App } from '../app.ts';
import { guard } from '../http/guard.ts';
import { closed, describe, nullable, Revoked, Timestamp, Uuid } from '../http/openapi.ts';
import { created, ok } from '../http/reply.ts';
import { LIMITS } from '../limits.ts';
import type { JsonObject } from '../runtime/text.ts';
import { BOT_NAME, listBots, registerBot, resetBotSecret, revokeBot } from './bots.ts';
import { identifyBot } from './identify-bot.ts';

const Name = Type.String({ pattern: BOT_NAME.source, examples: ['order-agent'] });
const Slug = Type.String({ examples: ['acme'] });
const Secret = Type.String({ description: 'shown once', examples: ['svc_bot_...'] });
const Permissions = Type.Object(
  { entities: Type.Record(Type.String(), Type.Array(Type.String())) },
  { description: 'operations by entity; no wildcards', examples: [{ entities: { orders: ['read', 'update'] } }] },
);
export const BotSchema = Type.Object(
  {
    id: Uuid,
    name: Name,
    tenantSlug: Slug,
    permissions: Permissions,
    isActive: Type.Boolean({ examples: [true] }),
    revokedAt: nullable(Timestamp),
    createdAt: Timestamp,
    updatedAt: Timestamp,
  },
  { $id: 'Bot' },
);
export const WithSecret = Type.Object(
  { id: Uuid, name: Name, secret: Secret, tenantSlug: Slug },
  { $id: 'BotWithSecret' },
);
const ResetSecret = Type.Object({ id: Uuid, name: Name, secret: Secret }, { $id: 'BotResetSecret' });
export const IdentifiedSchema = Type.Object(
  {
    id: Uuid,
    name: Name,
    tenantSlug: Slug,
    tenantId: Uuid,
    permissions: Permissions,
    token: Type.String({ examples: ['eyJ...'] }),
    expiresIn: Type.Integer({ description: 'seconds', examples: [LIMITS.bot.ttlS] }),
  },
  { $id: 'IdentifiedBot' },
);

const TAG = 'Bots';
const Params = t.Object({ id: t.String() });
const access = 'admin' as const;
const writing = { access, json: true, body: t.Object({}, { additionalProperties: true }) } as const;

export function botRoutes(app: App) {
  return new Elysia({ name: 'bots' })
    .use(guard(app))
    .get('/api/auth/bots', async ({ caller }) => ok(await listBots(app, caller)), { access, detail: LIST })
    .post(
      '/api/auth/bots/register',
      async ({ caller, body }) => created(await registerBot(app, caller, body as JsonObject)),
      { ...writing, detail: REGISTER },
    )
    .post(
      '/api/auth/bots/identify',
      async ({ caller, body, request }) => ok(await identifyBot(app, caller, body as JsonObject, request)),
      { ...writing, detail: IDENTIFY },
    )
    .post(
      '/api/auth/bots/:id/revoke',
      async ({ caller, params }) => {
        await revokeBot(app, caller, params.id);
        return ok({ id: params.id.toLowerCase(), revoked: true });
      },
      { access, params: Params, detail: REVOKE },
    )
    .post(
      '/api/auth/bots/:id/reset-secret',
      async ({ caller, params }) => ok(await resetBotSecret(app, caller, params.id)),
      { access, params: Params, detail: RESET },
    );
}

const LIST = describe({ id: 'listBots', tag: TAG, summary: 'List bots', ok: [200, Type.Array(BotSchema)] });
const REGISTER = describe({
  id: 'registerBot',
  tag: TAG,
  summary: 'Register a bot',
  ok: [201, WithSecret],
  body: closed({ name: Name, tenantSlug: Slug, permissions: Type.Optional(Permissions) }),
  errors: ['CONFLICT'],
});
const IDENTIFY = describe({
  id: 'identifyBot',
  tag: TAG,
  summary: 'Trade a bot’s name and secret for a token of one hour',
  ok: [200, IdentifiedSchema],
  body: closed({ name: Name, secret: Type.String({ examples: ['svc_bot_...'] }) }),
});
const REVOKE = describe({
  id: 'revokeBot',
  tag: TAG,
  summary: 'Revoke a bot for good',
  description: 'It gets no more tokens; the ones it holds run out within the hour.',
  ok: [200, Revoked],
});
const RESET = describe({
  id: 'resetBotSecret',
  tag: TAG,
  summary: 'Give a bot a new secret',
  ok: [200, ResetSecret],
  errors: ['CONFLICT'],
});
