// The routes of bots, all for tenant admins: register, identify, list, revoke, reset the secret. A secret is
// shown once. Failures: 400 with every problem, 404, 409.
// Contract: interface#identity.
import { Type } from '@sinclair/typebox';
import { Elysia } from 'elysia';
import type { App } from '../app.ts';
import { okList } from '../http/bounded-response.ts';
import { guard } from '../http/guard.ts';
import { created, ok } from '../http/reply.ts';
import { route } from '../http/route.ts';
import { Revoked } from '../http/schemas.ts';
import {
  BotChange,
  BotResetSecret,
  BotSchema,
  BotWithSecret,
  changeBot,
  listBots,
  NewBot,
  registerBot,
  resetBotSecret,
  revokeBot,
} from './bots.ts';
import { BotSecret, IdentifiedBotSchema, identifyBot } from './identify-bot.ts';

const common = { tag: 'Bots', access: 'admin' } as const;

const LIST = route({ ...common, id: 'listBots', summary: 'List bots', ok: [200, Type.Array(BotSchema)] });
const REGISTER = route({
  ...common,
  id: 'registerBot',
  summary: 'Register a bot',
  body: NewBot,
  example: {
    name: 'order-agent',
    tenantSlug: 'demo',
    permissions: { entities: { companies: ['read', 'update'] } },
  },
  ok: [201, BotWithSecret],
  errors: ['CONFLICT'],
});
const CHANGE = route({
  ...common,
  id: 'updateBot',
  summary: 'Change a bot’s permissions or limits',
  description:
    'Members that are missing keep their values; `permissions` and `limits` are replaced as a whole. It counts at once, for tokens too.',
  body: BotChange,
  example: { limits: { writesPerHour: 1_000, maxRowsPerCall: 100 } },
  ok: [200, BotSchema],
  errors: ['CONFLICT'],
});
const IDENTIFY = route({
  ...common,
  id: 'identifyBot',
  summary: 'Exchange a bot’s name and secret for a token of one hour',
  body: BotSecret,
  ok: [200, IdentifiedBotSchema],
});
const REVOKE = route({
  ...common,
  id: 'revokeBot',
  summary: 'Revoke a bot permanently',
  description: 'It gets no further tokens; those issued before expire within the hour.',
  ok: [200, Revoked],
});
const RESET = route({
  ...common,
  id: 'resetBotSecret',
  summary: 'Give a bot a new secret',
  ok: [200, BotResetSecret],
  errors: ['CONFLICT'],
});

export function botRoutes(app: App) {
  return new Elysia({ name: 'bots' })
    .use(guard(app))
    .get('/api/auth/bots', async ({ caller }) => okList(await listBots(app, caller)), LIST)
    .post(
      '/api/auth/bots/register',
      async ({ caller, body }) => created(await registerBot(app, caller, body)),
      REGISTER,
    )
    .patch(
      '/api/auth/bots/:id',
      async ({ caller, params, body }) => ok(await changeBot(app, caller, params.id, body)),
      CHANGE,
    )
    .post(
      '/api/auth/bots/identify',
      async ({ caller, body, request }) => ok(await identifyBot(app, caller, body, request)),
      IDENTIFY,
    )
    .post(
      '/api/auth/bots/:id/revoke',
      async ({ caller, params }) => ok(await revokeBot(app, caller, params.id)),
      REVOKE,
    )
    .post(
      '/api/auth/bots/:id/reset-secret',
      async ({ caller, params }) => ok(await resetBotSecret(app, caller, params.id)),
      RESET,
    );
}
