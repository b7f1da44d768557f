// Messages between agents: sending, reading, and chains of replies. Contract: decisions#messages.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { runRulesOnce } from '../src/rules/worker.ts';
import { sql } from '../src/runtime/sql.ts';
import { bearer, userToken } from './support/credentials.ts';
import { registerBot } from './support/people.ts';
import { type Client, type Json, startService, type TestService, type TestTenant } from './support/service.ts';
import { storedEvents } from './support/tenant-database.ts';

let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService();
});
afterAll(async () => service.stop());

const MESSAGES = '/agent-messages';

async function agents() {
  tenant = await service.tenant();
  return {
    scout: await registerBot(service, tenant, 'scout'),
    clerk: await registerBot(service, tenant, 'clerk'),
    other: await registerBot(service, tenant, 'other'),
  };
}

async function send(from: Client, to: string, further: Json = {}): Promise<Json> {
  const answer = await from.post(MESSAGES, { to_agent: to, subject: 'late', body: 'Order 17', ...further });
  expect(answer.status, answer.text).toBe(201);
  return answer.body.data;
}

describe('sending and reading', () => {
  test('a message is addressed by a bot’s name or id; message.received carries no body', async () => {
    const { scout, clerk } = await agents();
    const first = await send(scout, 'clerk', { priority: 'high' });
    const second = await send(scout, clerk.id);
    expect([first.chain_depth, second.chain_depth]).toEqual([0, 0]);
    const events = await storedEvents(service, tenant, 'message.received');
    expect(events.map(({ payload }) => payload)).toEqual([
      { to_agent: 'clerk', from_agent: 'scout', message_id: first.message_id, subject: 'late', priority: 'high' },
      { to_agent: 'clerk', from_agent: 'scout', message_id: second.message_id, subject: 'late', priority: 'normal' },
    ]);
  });

  test('reading a message removes it from the unread list', async () => {
    const { scout, clerk } = await agents();
    const { message_id } = await send(scout, 'clerk');
    const unread = (await clerk.get(`${MESSAGES}?unread=true`)).body.data;
    expect(unread).toHaveLength(1);
    expect(unread[0]).not.toHaveProperty('body');
    const read = await clerk.get(`${MESSAGES}/${message_id}/read`);
    expect(Object.keys(read.body.data).sort()).toEqual(
      [
        ...['body', 'chain_depth', 'created_at', 'from_agent', 'in_reply_to', 'message_id', 'priority', 'read_at'],
        ...['subject', 'to_agent'],
      ].sort(),
    );
    expect(read.body.data).toMatchObject({ from_agent: 'scout', to_agent: 'clerk', body: 'Order 17' });
    const again = await clerk.get(`${MESSAGES}/${message_id}/read`);
    expect(again.body.data.read_at).toBe(read.body.data.read_at);
    expect((await clerk.get(`${MESSAGES}?unread=true`)).body.data).toEqual([]);
    expect((await clerk.get(`${MESSAGES}?unseen=true`)).status).toBe(400);
    expect((await clerk.get(MESSAGES)).body.data).toHaveLength(1);
  });

  test('only the addressee and tenant admins read a message; to others it is 404', async () => {
    const { scout, other } = await agents();
    const { message_id } = await send(scout, 'clerk');
    const path = `${MESSAGES}/${message_id}/read`;
    const foreign = await service.tenant();
    const namesake = await registerBot(service, foreign, 'clerk');
    for (const client of [scout, other, foreign, namesake]) {
      expect((await client.get(path)).status).toBe(404);
      expect((await client.get(MESSAGES)).body.data).toEqual([]);
    }
    const person = bearer(service, await userToken(service, tenant, 'member'));
    expect((await person.get(path)).status).toBe(403);
    expect((await person.get(MESSAGES)).status).toBe(403);
    expect((await person.post(MESSAGES, { to_agent: 'clerk', subject: 's', body: 'b' })).status).toBe(403);
    expect((await tenant.get(MESSAGES)).body.data).toHaveLength(1);
    expect((await tenant.get(path)).status).toBe(200);
  });

  test('an unknown or revoked agent, another’s message and invalid members are rejected', async () => {
    const { scout, clerk, other } = await agents();
    const draft = { to_agent: 'clerk', subject: 's', body: 'b' };
    expect((await scout.post(MESSAGES, { ...draft, to_agent: 'unknown' })).status).toBe(404);
    const { message_id } = await send(scout, 'clerk');
    expect((await other.post(MESSAGES, { ...draft, in_reply_to: message_id })).status).toBe(404);
    expect((await scout.post(MESSAGES, { ...draft, in_reply_to: 'nonsense' })).status).toBe(404);
    const invalid = await scout.post(MESSAGES, { to_agent: 'clerk', priority: 'shouting' });
    expect(invalid.status).toBe(400);
    expect(invalid.body.error.details.map(({ path }: Json) => path).sort()).toEqual(['body', 'priority', 'subject']);
    await tenant.post(`/api/auth/bots/${clerk.id}/revoke`);
    expect((await scout.post(MESSAGES, draft)).status).toBe(404);
  });

  test('the sender is the credential’s bot, never a member of the body; an admin’s message has none', async () => {
    const { scout, clerk } = await agents();
    const { message_id } = await send(scout, 'clerk', { from_agent: 'other', chain_depth: 0 });
    expect((await clerk.get(`${MESSAGES}/${message_id}/read`)).body.data.from_agent).toBe('scout');
    const byAdmin = await send(tenant, 'clerk');
    expect((await clerk.get(`${MESSAGES}/${byAdmin.message_id}/read`)).body.data.from_agent).toBeNull();
  });
});

describe('chains', () => {
  /** Sends replies up to the depth limit; resolves to the last message's id. */
  async function deepestReply(scout: Client, clerk: Client): Promise<string> {
    let last = await send(scout, 'clerk');
    for (let depth = 1; depth <= 5; depth++) {
      const [from, to] = depth % 2 === 1 ? [clerk, 'scout'] : [scout, 'clerk'];
      last = await send(from as Client, to as string, { in_reply_to: last.message_id });
      expect(last.chain_depth).toBe(depth);
    }
    return last.message_id;
  }

  test('a reply deeper than 5 gets 409, is not delivered, and appends message.chain_limit', async () => {
    const { scout, clerk } = await agents();
    const id = await deepestReply(scout, clerk);
    const reply = { to_agent: 'clerk', subject: 's', body: 'b', in_reply_to: id };
    expect((await scout.post(MESSAGES, reply)).status).toBe(409);
    expect(await storedEvents(service, tenant, 'message.received')).toHaveLength(6);
    const limits = await storedEvents(service, tenant, 'message.chain_limit');
    expect(limits.map(({ payload }) => payload)).toEqual([
      { message_id: id, depth: 5, from_agent: 'scout', to_agent: 'clerk' },
    ]);
  });

  test('the limit holds for concurrent replies', async () => {
    const { scout, clerk } = await agents();
    const id = await deepestReply(scout, clerk);
    const reply = { to_agent: 'clerk', subject: 's', body: 'b', in_reply_to: id };
    const answers = await Promise.all(Array.from({ length: 20 }, () => scout.post(MESSAGES, reply)));
    expect(answers.map(({ status }) => status)).toEqual(Array(20).fill(409));
    expect(await storedEvents(service, tenant, 'message.chain_limit')).toHaveLength(20);
    const [deep] = await service.app.db.rows<{ max: number }>(sql`
      select max(chain_depth) from platform.messages where tenant_id = ${tenant.id}::uuid`);
    expect(deep?.max).toBe(5);
  });

  test('a rule sends a message with values of the record', async () => {
    const { clerk } = await agents();
    await tenant.post('/api/entities', { name: 'task', fields: [{ key: 'title', type: 'text' }] });
    const action = {
      type: 'send_message',
      to_agent: 'clerk',
      subject: 'New: {{title}}',
      body: '{{id}}',
      priority: 'low',
    };
    const rule = { name: 'notify the clerk', entity: 'task', trigger: 'after_create', action };
    expect((await tenant.post('/api/rules', rule)).status).toBe(201);
    const created = await tenant.post('/api/entities/task/records', { title: 'pump' });
    // Under Deno the service itself may execute the run.
    const left = sql`select from platform.rule_runs where tenant_id = ${tenant.id}::uuid limit 1`;
    do await runRulesOnce(service.app, new AbortController().signal);
    while ((await service.app.db.first(left)) !== undefined);
    const [message] = (await clerk.get(`${MESSAGES}?unread=true`)).body.data;
    expect(message).toMatchObject({ subject: 'New: pump', priority: 'low', from_agent: null, chain_depth: 0 });
    const read = await clerk.get(`${MESSAGES}/${message.message_id}/read`);
    expect(read.body.data.body).toBe(created.body.data.id);
  });
});
