// MCP tools for bots. As over REST, all tools but `whoami_bot` need a tenant admin, and a secret is shown only when it is
// created.
// Failures: those of the operations.
// Contract: interface#mcp, interface#bot.
import { Type } from '@sinclair/typebox';
import { WhoamiSchema, whoami } from '../admin/routes.ts';
import {
  BotLimitsSchema,
  BotName,
  type BotPermissions,
  BotSchema,
  BotWithSecret,
  listBots,
  registerBot,
  revokeBot,
} from '../bots/bots.ts';
import { IdentifiedBotSchema, identifyBot } from '../bots/identify-bot.ts';
import { sized } from '../http/bounded-response.ts';
import { Revoked } from '../http/schemas.ts';
import { LIMITS } from '../limits.ts';
import { ADDS, defineTool, READS, REPLACES, type Tool, toolInput } from './tool.ts';

const Name = Type.String({
  pattern: BotName.pattern as string,
  description: '3 to 50 lowercase letters, digits and hyphens; unique in the tenant.',
});
const Permissions = Type.Unsafe<BotPermissions>(
  Type.Object(
    { entities: Type.Record(Type.String(), Type.Array(Type.String())) },
    { description: 'Operations (create, read, update, delete) by entity name; no wildcards.' },
  ),
);

export const BOT_TOOLS: readonly Tool[] = [
  defineTool({
    name: 'register_bot',
    title: 'Register a bot',
    description: 'Registers a bot in the tenant. The result contains its secret, which is not shown again.',
    access: 'admin',
    hints: ADDS,
    input: toolInput({
      name: Name,
      permissions: Type.Optional(Permissions),
      limits: Type.Optional(BotLimitsSchema),
    }),
    output: BotWithSecret,
    run: async ({ app, caller }, { name, permissions, limits, tenantSlug = caller.tenant.slug }) =>
      registerBot(app, caller, { name, permissions, limits, tenantSlug }),
  }),
  defineTool({
    name: 'identify_bot',
    title: 'Identify a bot',
    description: 'Exchanges a bot’s name and secret for a token that is valid for one hour.',
    access: 'admin',
    hints: ADDS,
    input: toolInput({ name: Type.String(), secret: Type.String({ description: 'The bot’s secret. Sensitive.' }) }),
    output: IdentifiedBotSchema,
    run: async ({ app, caller, request }, { name, secret }) => identifyBot(app, caller, { name, secret }, request),
  }),
  defineTool({
    name: 'list_bots',
    title: 'List bots',
    description: 'Lists the bots of the tenant, including revoked ones, without their secrets.',
    access: 'admin',
    hints: READS,
    input: toolInput({}),
    output: Type.Object({ bots: Type.Array(BotSchema) }),
    run: async ({ app, caller }) => sized({ bots: await listBots(app, caller) }, LIMITS.response.largeFrom),
  }),
  defineTool({
    name: 'whoami_bot',
    title: 'Who am I',
    description: 'Shows the bot or other credential of this connection, its tenant and its permissions.',
    access: 'any',
    hints: READS,
    input: toolInput({}),
    output: WhoamiSchema,
    run: async ({ caller }) => whoami(caller),
  }),
  defineTool({
    name: 'revoke_bot',
    title: 'Revoke a bot',
    description: 'Revokes a bot permanently. It gets no new tokens; existing ones expire within an hour.',
    access: 'admin',
    hints: REPLACES,
    input: toolInput({ bot_id: Type.String({ description: 'The id of the bot, a UUID.' }) }),
    output: Revoked,
    run: async ({ app, caller }, { bot_id: id }) => revokeBot(app, caller, id),
  }),
];
