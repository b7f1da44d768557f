// Events of rules and messages on the SSE stream: rule.executed, rule.failed, message.received and message.chain_limit,
// in the contract's shape and only for the streams that may see them.
// Contract: interface#sse, decisions#sse, decisions#rules, decisions#messages.
import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test';
import { notifyCommitted } from '../src/events/publication.ts';
import { runRulesOnce } from '../src/rules/worker.ts';
import { sql } from '../src/runtime/sql.ts';
import { closeAfterEach } from './support/connections.ts';
import { addRole, platformKey } from './support/credentials.ts';
import { registerBot } from './support/people.ts';
import { type Client, type Json, startService, type TestService, type TestTenant } from './support/service.ts';
import { connectEvents, type EventStream, openEvents } from './support/streams.ts';

const RECORDS = '/api/entities/task/records';
const ID = /^evt_[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const AT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService();
});
afterAll(() => service.stop());
beforeEach(async () => {
  tenant = await service.tenant();
  const fields = [
    { key: 'title', type: 'text' },
    { key: 'secret', type: 'text' },
  ];
  expect((await tenant.post('/api/entities', { name: 'task', fields })).status).toBe(201);
});

const keep = closeAfterEach();
const listen = async (query = '', key = tenant.key): Promise<EventStream> =>
  keep(await connectEvents(service.url, tenant.slug, key, query));

/** A platform key whose role may read these, restricted by `entities`. */
async function keyFor(reads: string[], entities: Record<string, { excludeFields: string[] }> = {}): Promise<string> {
  const permissions = Object.fromEntries(reads.map((name) => [name, ['read' as const]]));
  const role = await addRole(service, tenant, { permissions, entities });
  return platformKey(service, tenant, role.name, permissions);
}

async function addRule(trigger: string, action: Json, further: Json = {}): Promise<void> {
  const answer = await tenant.post('/api/rules', { name: 'follow up', entity: 'task', trigger, action, ...further });
  expect(answer.status, answer.text).toBe(201);
}

/** An action that fails: the agent does not exist. */
const FAILING = { type: 'send_message', to_agent: 'unknown', subject: 's', body: 'b', priority: 'low' };

/** Executes the due rule runs, and waits for those that the service itself executes under Deno. */
async function runRules(): Promise<void> {
  const isDue = sql`select from platform.rule_runs where next_at <= now()`;
  do await runRulesOnce(service.app, new AbortController().signal);
  while ((await service.app.db.first(isDue)) !== undefined);
  notifyCommitted(service.app, { tenantId: tenant.id });
}

test('an executed rule yields rule.executed, and its change is triggered by `rule`', async () => {
  await addRule('after_create', { type: 'update_record', values: { secret: 'seen' } });
  const all = await listen();
  const rules = await listen('?events=rule.executed,rule.failed&entities=task');
  const { id } = (await tenant.post(RECORDS, { title: 'one' })).body.data;
  await runRules();
  expect((await all.next()).event).toBe('record.created');
  const changed = await all.next();
  expect([changed.event, changed.data.data.triggered_by]).toEqual(['record.updated', 'rule']);
  const executed = await rules.next();
  expect(executed.event).toBe('rule.executed');
  expect(executed.data).toEqual({
    id: expect.stringMatching(ID),
    type: 'rule.executed',
    timestamp: expect.stringMatching(AT),
    tenant: tenant.slug,
    data: {
      rule_name: 'follow up',
      trigger_type: 'after_create',
      entity: 'task',
      record_id: id,
      result: expect.any(Object),
    },
  });
});

test('a failed rule yields rule.failed, with an error instead of a result', async () => {
  await addRule('after_create', FAILING);
  const stream = await listen('?events=rule.failed');
  const { id } = (await tenant.post(RECORDS, { title: 'one' })).body.data;
  await runRules();
  const failed = await stream.next();
  expect(failed.data).toMatchObject({ id: expect.stringMatching(ID), type: 'rule.failed', tenant: tenant.slug });
  const { rule_name, trigger_type, entity, record_id, error, ...further } = failed.data.data;
  expect([rule_name, trigger_type, entity, record_id]).toEqual(['follow up', 'after_create', 'task', id]);
  expect([typeof error, further]).toEqual(['string', {}]);
});

test('rule events go only to roles that see the whole entity', async () => {
  await addRule('after_create', { type: 'update_record', values: { secret: 'seen' } });
  const complete = await listen('', await keyFor(['task']));
  const restricted = await listen('', await keyFor(['task'], { task: { excludeFields: ['secret'] } }));
  await tenant.post(RECORDS, { title: 'one' });
  await runRules();
  await tenant.post(RECORDS, { title: 'last' });
  const types = async (stream: EventStream): Promise<string[]> => {
    const seen = [await stream.next()];
    while (seen.at(-1)?.data.data.fields?.title !== 'last') seen.push(await stream.next());
    return seen.map(({ event }) => event).toSorted();
  };
  expect(await types(complete)).toEqual(['record.created', 'record.created', 'record.updated', 'rule.executed']);
  expect(await types(restricted)).toEqual(['record.created', 'record.created', 'record.updated']);
});

test('events of a dropped entity are not shown to those who may read a new one with its name', async () => {
  await addRule('after_create', FAILING);
  await addRule('after_create', { type: 'update_record', values: { secret: 'seen' } });
  const old = (await tenant.post(RECORDS, { title: 'old' })).body.data;
  await runRules();
  expect((await tenant.delete('/api/entities/task?confirm=task')).status).toBe(200);
  await tenant.post('/api/entities', { name: 'task', fields: [{ key: 'title', type: 'text' }] });
  await addRule('after_create', { type: 'update_record', values: { title: 'new' } });
  const stream = await listen('?since=earliest', await keyFor(['task']));
  await tenant.post(RECORDS, { title: 'one' });
  await runRules();
  const seen = [await stream.next()];
  while (seen.at(-1)?.event !== 'rule.executed') seen.push(await stream.next());
  expect(seen.map(({ event }) => event).toSorted()).toEqual(['record.created', 'record.updated', 'rule.executed']);
  expect(JSON.stringify(seen)).not.toContain(old.id);
});

test('message.received goes to streams of its agent only, with the message’s id but not its body', async () => {
  const [scout, clerk] = [await registerBot(service, tenant, 'scout'), await registerBot(service, tenant, 'clerk')];
  const byName = await listen('?agent_id=clerk');
  const byId = await listen(`?agent_id=${clerk.id}`);
  const others = [await listen(), await listen('?agent_id=scout')];
  const message = { to_agent: 'clerk', subject: 'late', body: 'Order 17', priority: 'high' };
  const { message_id } = (await scout.post('/agent-messages', message)).body.data;
  for (const stream of [byName, byId]) {
    const received = await stream.next();
    expect(received.event).toBe('message.received');
    expect(received.data).toEqual({
      id: expect.stringMatching(ID),
      type: 'message.received',
      timestamp: expect.stringMatching(AT),
      tenant: tenant.slug,
      to_agent: 'clerk',
      from_agent: 'scout',
      message_id,
      subject: 'late',
      priority: 'high',
    });
  }
  await tenant.post(RECORDS, { title: 'next' });
  for (const stream of others) expect((await stream.next()).event).toBe('record.created');
  expect((await clerk.get(`/agent-messages/${message_id}/read`)).body.data.body).toBe('Order 17');
});

test('a platform key receives messages of an agent that it may read', async () => {
  const scout = await registerBot(service, tenant, 'scout');
  await registerBot(service, tenant, 'clerk');
  const rejected = await openEvents(service.url, tenant.slug, await keyFor(['task']), '?agent_id=clerk');
  expect(rejected.status).toBe(403);
  const stream = await listen('?agent_id=clerk', await keyFor(['agent:clerk']));
  await scout.post('/agent-messages', { to_agent: 'clerk', subject: 'late', body: 'Order 17' });
  expect((await stream.next()).data).toMatchObject({ type: 'message.received', priority: 'normal' });
});

test('a reply beyond the chain limit yields message.chain_limit', async () => {
  const agents = [await registerBot(service, tenant, 'scout'), await registerBot(service, tenant, 'clerk')] as const;
  const stream = await listen('?events=message.chain_limit');
  let in_reply_to: string | undefined;
  for (let depth = 0; depth <= 5; depth++) {
    const message = { to_agent: depth % 2 ? 'scout' : 'clerk', subject: 's', body: 'b', in_reply_to };
    const answer = await (agents[depth % 2] as Client).post('/agent-messages', message);
    expect([answer.status, answer.body.data.chain_depth]).toEqual([201, depth]);
    in_reply_to = answer.body.data.message_id;
  }
  const tooDeep = { to_agent: 'clerk', subject: 's', body: 'b', in_reply_to };
  expect((await agents[0].post('/agent-messages', tooDeep)).status).toBe(409);
  expect((await stream.next()).data).toEqual({
    id: expect.stringMatching(ID),
    type: 'message.chain_limit',
    timestamp: expect.stringMatching(AT),
    tenant: tenant.slug,
    message_id: in_reply_to,
    depth: 5,
    from_agent: 'scout',
    to_agent: 'clerk',
  });
});
