// Messages between agents, that is, bots. A reply is one chain level deeper than the message it answers; a reply deeper
// than the limit is not delivered, and message.chain_limit is appended instead. The depth of a stored message never
// changes, so concurrent replies cannot exceed the limit. A message and its event commit together. Failures: 400, 403,
// 404, 409 at the limit. Contract: decisions#messages.
import { type Static, Type } from '@sinclair/typebox';
import { requireTenant, type TenantCaller } from '../access/caller.ts';
import type { App } from '../app.ts';
import { PRIORITIES } from '../entities/field.ts';
import { conflict, forbidden, notFound } from '../errors.ts';
import { appendEvent, type Cause } from '../events/outbox.ts';
import { notifyCommitted } from '../events/publication.ts';
import { check } from '../http/check.ts';
import { closed, Ignored, nullable, oneOf, optional, Timestamp, text, Uuid } from '../http/schemas.ts';
import { LIMITS } from '../limits.ts';
import { isUuid, newId } from '../runtime/ids.ts';
import { type Queries, type Sql, sql, type Tx } from '../runtime/sql.ts';
import { storedOf } from '../tenants/stored.ts';
import { beginCounted } from '../usage/tally.ts';

const { chainDepthMax } = LIMITS.rules;
const { nameMax, subjectMax, bodyMax, countMax, bytesMax } = LIMITS.message;
const Depth = Type.Integer({ minimum: 0, maximum: chainDepthMax, examples: [0] });
const Agent = Type.String({ examples: ['order-agent'] });
const Subject = text(subjectMax, { examples: ['Order 17 is late'] });
const Body = text(bodyMax, { examples: ['The carrier has not answered since Monday.'] });
const PrioritySchema = oneOf(PRIORITIES, { examples: ['normal'] });
const Head = {
  message_id: Uuid,
  from_agent: nullable(Agent, { description: 'null when the sender is not a bot' }),
  to_agent: Agent,
  subject: Subject,
  priority: PrioritySchema,
  in_reply_to: nullable(Uuid),
  chain_depth: Depth,
  created_at: Timestamp,
  read_at: nullable(Timestamp),
};
/** A message without its body. */
export const MessageHeadSchema = Type.Object(Head, { $id: 'MessageHead' });
type MessageHead = Static<typeof MessageHeadSchema>;
export const MessageSchema = Type.Object({ ...Head, body: Body }, { $id: 'Message' });
export type Message = Static<typeof MessageSchema>;
export const SentMessageSchema = Type.Object({ message_id: Uuid, chain_depth: Depth });
type SentMessage = Static<typeof SentMessageSchema>;
/** The service determines sender and depth; both members are accepted and ignored. */
export const NewMessage = closed({
  to_agent: text(nameMax, { description: 'a bot, by name or id', examples: ['order-agent'] }),
  subject: Subject,
  body: Body,
  priority: optional(PrioritySchema),
  in_reply_to: optional(
    text(nameMax, { description: 'the id of the message being answered', examples: Uuid.examples }),
  ),
  from_agent: Ignored,
  chain_depth: Ignored,
});
export type NewMessage = Static<typeof NewMessage>;

/** A message that is not stored yet. `to_agent` must be a bot's name. */
type Draft = Omit<Message, 'message_id' | 'created_at' | 'read_at'>;

const HEAD = sql`id as message_id, from_agent, to_agent, subject, priority, in_reply_to, chain_depth, created_at,
  read_at`;

/** 403 unless the caller is a bot or a tenant admin. */
function requireAgent(caller: TenantCaller | null): TenantCaller {
  const inTenant = requireTenant(caller);
  if (inTenant.kind !== 'bot' && !inTenant.isTenantAdmin) throw forbidden('this needs a bot or a tenant admin');
  return inTenant;
}

/** 400 with every problem, 404 for an unknown agent or `in_reply_to`, 409 at the chain limit. */
export async function sendMessage(app: App, caller: TenantCaller, body: NewMessage): Promise<SentMessage> {
  const agent = requireAgent(caller);
  const { to_agent, subject, body: content, priority, in_reply_to = null } = check(NewMessage, body);
  const text = { subject, body: content, priority: priority ?? 'normal' };
  const sent = await beginCounted(app, async (tx) => {
    const original = in_reply_to === null ? null : await findOriginal(tx, agent, in_reply_to);
    const chain_depth = original === null ? 0 : original.chain_depth + 1;
    const cause = causeOf(agent, chain_depth);
    const parties = {
      from_agent: agent.kind === 'bot' ? (agent.name ?? null) : null,
      to_agent: await agentNamed(tx, agent, to_agent),
    };
    if (chain_depth <= chainDepthMax) return storeMessage(tx, cause, { ...text, ...parties, in_reply_to, chain_depth });
    const limit = { message_id: original?.message_id, depth: chainDepthMax, ...parties };
    await appendEvent(tx, 'message.chain_limit', cause, limit);
    return null;
  });
  notifyCommitted(app, { tenantId: agent.tenant.id, change: null });
  if (sent === null)
    throw conflict(`the chain of replies has reached depth ${chainDepthMax}; the message is not delivered`);
  return sent;
}

function causeOf({ tenant, id, triggeredBy }: TenantCaller, depth: number): Cause {
  return { tenantId: tenant.id, actor: id, triggeredBy, depth, rootEventId: null, chainRuns: 0 };
}

/** How many messages are deleted at once to make room for new ones. */
const ROOM = 100;

/**
 * 409 when the tenant's unread messages leave no room for another. Read messages are deleted to make room, the earliest read
 * first.
 */
async function requireRoom(tx: Tx, tenantId: string): Promise<void> {
  const { count, bytes } = await storedOf(tx, tenantId, 'messages');
  if (count < countMax && bytes < bytesMax) return;
  const deleted = await tx.rows(sql`
    delete from platform.messages where id = any(array(
      select id from platform.messages where tenant_id = ${tenantId}::uuid and read_at is not null
      order by read_at limit ${ROOM}::int for update skip locked))
    returning id`);
  if (deleted.length > 0) return;
  throw conflict(`the tenant has ${countMax} unread messages, or ${bytesMax} bytes of them: read some first`);
}

/** Stores the message and its event. 409 without room for it. */
export async function storeMessage(
  tx: Tx,
  cause: Cause,
  { from_agent, to_agent, subject, body, priority, in_reply_to, chain_depth }: Draft,
): Promise<SentMessage> {
  await requireRoom(tx, cause.tenantId);
  const message_id = newId();
  await tx.rows(sql`
    insert into platform.messages (id, tenant_id, from_agent, to_agent, subject, body, priority, in_reply_to, chain_depth)
    values (${message_id}::uuid, ${cause.tenantId}::uuid, ${from_agent}, ${to_agent}, ${subject}, ${body}, ${priority},
      ${in_reply_to}::uuid, ${chain_depth}::int)`);
  await appendEvent(tx, 'message.received', cause, { to_agent, from_agent, message_id, subject, priority });
  return { message_id, chain_depth };
}

/** The name of the bot with this name or id. 404 for an unknown or revoked one. */
export async function agentNamed(
  queries: Queries,
  { tenant }: Pick<TenantCaller, 'tenant'>,
  agent: string,
): Promise<string> {
  const named = isUuid(agent) ? sql`(id = ${agent}::uuid or name = ${agent})` : sql`name = ${agent}`;
  const bot = await queries.first<{ name: string }>(sql`
    select name from platform.bots
    where tenant_id = ${tenant.id}::uuid and ${named} and revoked_at is null`);
  if (bot === undefined) throw notFound('agent');
  return bot.name;
}

/** The message that a reply answers: sent or received by the caller, or any of the tenant for an admin. */
async function findOriginal(tx: Tx, agent: TenantCaller, id: string): Promise<SentMessage> {
  const own = agent.isTenantAdmin ? sql`true` : sql`${agent.name ?? ''} in (to_agent, from_agent)`;
  const found = isUuid(id)
    ? await tx.first<SentMessage>(sql`
        select id as message_id, chain_depth from platform.messages
        where id = ${id}::uuid and tenant_id = ${agent.tenant.id}::uuid and ${own}`)
    : undefined;
  if (found === undefined) throw notFound('in_reply_to: message');
  return found;
}

/** The newest messages to the caller, or of the whole tenant for an admin. */
export async function listMessages(app: App, caller: TenantCaller, unread: boolean): Promise<MessageHead[]> {
  const agent = requireAgent(caller);
  return app.db.rows<MessageHead>(sql`
    select ${HEAD} from platform.messages
    where ${readableBy(agent)} ${unread ? sql`and read_at is null` : sql``}
    order by id desc
    limit ${LIMITS.message.listMax}::int`);
}

/** Marks the message as read. 404 unless it is addressed to the caller, or the caller is an admin. */
export async function readMessage(app: App, caller: TenantCaller, id: string): Promise<Message> {
  const agent = requireAgent(caller);
  if (!isUuid(id)) throw notFound('message');
  const message = await app.db.first<Message>(sql`
    update platform.messages set read_at = coalesce(read_at, now())
    where id = ${id}::uuid and ${readableBy(agent)}
    returning ${HEAD}, body`);
  if (message === undefined) throw notFound('message');
  return message;
}

function readableBy(agent: TenantCaller): Sql {
  const own = sql`tenant_id = ${agent.tenant.id}::uuid`;
  return agent.isTenantAdmin ? own : sql`${own} and to_agent = ${agent.name ?? ''}`;
}
