// No message names a field or an entity that its reader may not see, or shows whether a value exists there.
// Contract: decisions#responses, decisions#writes-within-a-role, decisions#rules.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test';
import { runRulesOnce } from '../src/rules/worker.ts';
import { sql } from '../src/runtime/sql.ts';
import { closeAfterEach } from './support/connections.ts';
import { addRole, platformKey, withRole } from './support/credentials.ts';
import { type Client, type Json, startService, type TestService, type TestTenant } from './support/service.ts';
import { connectEvents } from './support/streams.ts';

let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService();
});
afterAll(async () => service.stop());

const TASKS = '/api/entities/task/records';
/** Every name that the clerk may not see contains it. */
const HIDDEN = /xsecret|xvault/;
const NEUTRAL = 'a rule of this entity failed; ask an administrator';

beforeEach(async () => {
  tenant = await service.tenant();
  await define('xvault', [{ key: 'xsecret_line', type: 'select', options: ['xsecret_a'], required: true }]);
  await define('task', [
    { key: 'title', type: 'text' },
    { key: 'xsecret', type: 'select', options: ['xsecret_low', 'xsecret_high'] },
  ]);
});

async function define(name: string, fields: Json[]): Promise<void> {
  const answer = await tenant.post('/api/entities', { name, fields });
  expect(answer.status, answer.text).toBe(201);
}

async function rule(trigger: string, action: Json, further: Json = {}): Promise<void> {
  const answer = await tenant.post('/api/rules', { name: 'r', entity: 'task', trigger, action, ...further });
  expect(answer.status, answer.text).toBe(201);
}

const ALL = ['read', 'create', 'update', 'delete'] as const;

/** May do everything with tasks, whose field `xsecret` is hidden, and nothing else. */
async function clerkOf(restriction: Json = { excludeFields: ['xsecret'] }): Promise<Client> {
  return withRole(service, tenant, { permissions: { task: [...ALL] }, entities: { task: restriction } });
}

const keep = closeAfterEach();

async function runRules(): Promise<void> {
  const isDue = sql`select from platform.rule_runs where tenant_id = ${tenant.id}::uuid`;
  do await runRulesOnce(service.app, new AbortController().signal);
  while ((await service.app.db.first(isDue)) !== undefined);
}

describe('a before rule that cannot set a hidden field', () => {
  test('fails with a neutral message, and with the detail for those who see the field', async () => {
    await rule('before_create', { type: 'set', values: { xsecret: '{{title}}' } });
    await rule('before_update', { type: 'set', values: { xsecret: '{{title}}' } });
    const clerk = await clerkOf();
    const other = (await tenant.post(TASKS, { title: 'xsecret_low' })).body.data.id;
    const operations = [{ op: 'create', data: { title: 'a' } }];
    const ndjson = { 'content-type': 'application/x-ndjson' };
    for (const refused of [
      await clerk.post(TASKS, { title: 'a' }),
      await clerk.patch(`${TASKS}/${other}`, { title: 'a' }),
      await clerk.post(`${TASKS}/bulk`, { operations }),
      await clerk.post(`${TASKS}/bulk`, { operations, atomic: false }),
      await clerk.request('POST', `${TASKS}/import`, JSON.stringify({ title: 'a' }), ndjson),
    ]) {
      expect(refused.text).toContain(NEUTRAL);
      expect(refused.text).not.toMatch(HIDDEN);
    }
    const explained = await tenant.post(TASKS, { title: 'a' });
    expect(explained.body.error.message).toMatch(/^the rule "r" cannot set xsecret: /);
  });
});

describe('rule events of an after rule that writes to another entity', () => {
  test('show neither result nor error to a reader who may not see all of that entity', async () => {
    await rule('after_create', { type: 'create_record', entity: 'xvault', values: { xsecret_line: '{{title}}' } });
    const permissions = { task: ['read' as const] };
    const role = await addRole(service, tenant, { permissions });
    const key = await platformKey(service, tenant, role.name, permissions);
    const query = '?events=rule.executed,rule.failed';
    const seen = keep(await connectEvents(service.url, tenant.slug, key, query));
    const admin = keep(await connectEvents(service.url, tenant.slug, tenant.key, query));
    await tenant.post(TASKS, { title: 'no such option' });
    await tenant.post(TASKS, { title: 'xsecret_a' });
    await runRules();
    const events = [await seen.next(), await seen.next()];
    expect(JSON.stringify(events)).not.toMatch(HIDDEN);
    const byType = new Map(events.map(({ event, data }) => [event, data.data]));
    expect(byType.get('rule.failed').error).toBe(NEUTRAL);
    expect(byType.get('rule.executed').result).toEqual({ action: 'create_record' });
    const detailed = new Map([await admin.next(), await admin.next()].map(({ event, data }) => [event, data.data]));
    expect(detailed.get('rule.failed').error).toContain('xsecret_line');
    expect(detailed.get('rule.executed').result).toMatchObject({ entity: 'xvault' });
  });
});
