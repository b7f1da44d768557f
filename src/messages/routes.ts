// The routes of agent messages: send, list, read. Bots and tenant admins only; a bot sees what is
// addressed to it, an admin all of the tenant's. Reading marks as read.
// Contract: interface#event-channels, decisions#messages.
import { Type } from '@sinclair/typebox';
import { Elysia, t } from 'elysia';
import type { App } from '../app.ts';
import { PRIORITIES } from '../entities/rule.ts';
import { guard } from '../http/guard.ts';
import { closed, describe, Idle, nullable, Timestamp, Uuid } from '../http/openapi.ts';
import { flagFrom, flagParameter } from '../http/parameters.ts';
import { created, ok } from '../http/reply.ts';
import { LIMITS } from '../limits.ts';
import type { JsonObject } from '../runtime/text.ts';
import { listMessages, readMessage, sendMessage } from './messages.ts';

const Depth = Type.Integer({ minimum: 0, maximum: LIMITS.rules.chainDepthMax, examples: [0] });
const Agent = Type.String({ examples: ['order-agent'] });
const Subject = Type.String({ examples: ['Order 17 is late'] });
const Body = Type.String({ examples: ['The carrier has not answered since Monday.'] });
const Importance = Type.Unsafe<string>({ type: 'string', enum: [...PRIORITIES], examples: ['normal'] });
const Head = {
  message_id: Uuid,
  from_agent: nullable(Agent),
  to_agent: Agent,
  subject: Subject,
  priority: Importance,
  in_reply_to: nullable(Uuid),
  chain_depth: Depth,
  created_at: Timestamp,
  read_at: nullable(Timestamp),
};
const HeadSchema = Type.Object(Head, { $id: 'MessageHead' });
const MessageSchema = Type.Object({ ...Head, body: Body }, { $id: 'Message' });
const Sent = Type.Object({ message_id: Uuid, chain_depth: Depth });
const NewMessage = closed({
  to_agent: Type.String({ description: 'a bot, by name or id', examples: ['order-agent'] }),
  subject: Subject,
  body: Body,
  priority: Type.Optional(Importance),
  in_reply_to: Type.Optional(Uuid),
  from_agent: Idle,
  chain_depth: Idle,
});

const TAG = 'Messages';

const SEND = {
  access: 'tenant',
  json: true,
  body: t.Object({}, { additionalProperties: true }),
  detail: describe({
    id: 'sendAgentMessage',
    tag: TAG,
    summary: 'Send a message to an agent',
    description: `Bots and tenant admins. A reply is one deeper than what it answers; one that would be deeper than
${LIMITS.rules.chainDepthMax} is not delivered.`,
    body: NewMessage,
    ok: [201, Sent],
    errors: ['NOT_FOUND', 'CONFLICT'],
  }),
} as const;

const LIST = {
  access: 'tenant',
  query: t.Object({ unread: t.Optional(flagParameter({ description: 'only those that nobody has read' })) }),
  detail: describe({
    id: 'listAgentMessages',
    tag: TAG,
    summary: 'List messages',
    description: `Without their bodies, newest first, at most ${LIMITS.message.listMax}. A bot sees those addressed to it.`,
    ok: [200, Type.Array(HeadSchema)],
  }),
} as const;

const READ = {
  access: 'tenant',
  params: t.Object({ messageId: t.String() }),
  detail: describe({
    id: 'readAgentMessage',
    tag: TAG,
    summary: 'Read a message',
    description: 'For its addressee or a tenant admin; marks it as read.',
    ok: [200, MessageSchema],
  }),
} as const;

export function messageRoutes(app: App) {
  return new Elysia({ name: 'messages' })
    .use(guard(app))
    .post(
      '/agent-messages',
      async ({ caller, body }) => created(await sendMessage(app, caller, body as JsonObject)),
      SEND,
    )
    .get(
      '/agent-messages',
      async ({ caller, query }) => ok(await listMessages(app, caller, flagFrom(query.unread) === true)),
      LIST,
    )
    .get(
      '/agent-messages/:messageId/read',
      async ({ caller, params }) => ok(await readMessage(app, caller, params.messageId)),
      READ,
    );
}
