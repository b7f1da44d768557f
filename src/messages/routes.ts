// The routes of agent messages: send, list, read. For bots and tenant admins; a bot sees the messages addressed to it, an admin
// sees all messages of the tenant. Reading a message marks it as read.
// Contract: interface#event-channels, decisions#messages.
import { Type } from '@sinclair/typebox';
import { Elysia } from 'elysia';
import type { Caller } from '../access/caller.ts';
import type { App } from '../app.ts';
import { guard } from '../http/guard.ts';
import { flagParameter, parameters } from '../http/parameters.ts';
import { created, ok } from '../http/reply.ts';
import { route } from '../http/route.ts';
import { LIMITS } from '../limits.ts';
import {
  listMessages,
  MessageHeadSchema,
  MessageSchema,
  NewMessage,
  readMessage,
  SentMessageSchema,
  sendMessage,
} from './messages.ts';

const common = { tag: 'Messages', access: 'tenant' } as const;

/** Bots and tenant admins are agents. */
const mayCall = ({ kind, isTenantAdmin }: Caller): boolean => kind === 'bot' || isTenantAdmin;

const SEND = route({
  mayCall,
  ...common,
  id: 'sendAgentMessage',
  summary: 'Send a message to an agent',
  description: `For bots and tenant admins. A reply is one level deeper than the message it answers; a reply deeper
than ${LIMITS.rules.chainDepthMax} is not delivered.`,
  body: NewMessage,
  example: {
    to_agent: 'order-agent',
    subject: 'Order 17 is late',
    body: 'The carrier has not answered since Monday.',
    priority: 'normal',
  },
  ok: [201, SentMessageSchema],
  errors: ['NOT_FOUND', 'CONFLICT'],
});
const LIST = route({
  mayCall,
  ...common,
  id: 'listAgentMessages',
  summary: 'List messages',
  description: `Without their bodies, newest first, at most ${LIMITS.message.listMax}. A bot sees those addressed to it.`,
  query: parameters({ unread: Type.Optional(flagParameter({ description: 'only unread messages' })) }),
  ok: [200, Type.Array(MessageHeadSchema)],
});
const READ = route({
  mayCall,
  ...common,
  id: 'readAgentMessage',
  summary: 'Read a message',
  description: 'For its addressee or a tenant admin; marks it as read.',
  params: { messageId: 'the id of the message' },
  ok: [200, MessageSchema],
});

export function messageRoutes(app: App) {
  return new Elysia({ name: 'messages' })
    .use(guard(app))
    .post('/agent-messages', async ({ caller, body }) => created(await sendMessage(app, caller, body)), SEND)
    .get(
      '/agent-messages',
      async ({ caller, query }) => ok(await listMessages(app, caller, query.unread === true)),
      LIST,
    )
    .get(
      '/agent-messages/:messageId/read',
      async ({ caller, params }) => ok(await readMessage(app, caller, params.messageId)),
      READ,
    );
}
