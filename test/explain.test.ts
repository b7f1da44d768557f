// Explanations of access: their text for each reason, the errors for invalid questions, and that they agree with the outcome of
// calls, feeds, streams and deliveries for random roles, credentials, records, operations and channels. `EXPLAIN_CASES` sets the
// number of cases, `SEED` repeats a run.
// Contract: decisions#explanations.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import process from 'node:process';
import {
  addRole,
  botToken,
  everyKind,
  platformKey,
  publicKey,
  type RoleInput,
  userToken,
} from './support/credentials.ts';
import { judgedChanges, settledDeliveries } from './support/deliveries.ts';
import { createDeals } from './support/entities.ts';
import { callTool } from './support/mcp-calls.ts';
import { ROW_FILTERS } from './support/one-rule-model.ts';
import { seededRandom } from './support/random.ts';
import { type Receiver, startReceiver } from './support/receiver.ts';
import {
  type Answer,
  clientOf,
  type Json,
  startService,
  type TestService,
  type TestTenant,
} from './support/service.ts';
import { connectEvents, openSocket, until } from './support/streams.ts';

const SEED = Number(process.env.SEED ?? Math.floor(Math.random() * 2 ** 31));
const CASES = Number(process.env.EXPLAIN_CASES ?? 500);
const OPERATIONS = ['read', 'create', 'update', 'delete'] as const;
const CHANNELS = ['rest', 'mcp', 'changes', 'sse', 'websocket', 'webhook'] as const;
const random = seededRandom(SEED);
const below = (n: number): number => Math.floor(random() * n);
const pick = <T>(list: readonly T[]): T => list[below(list.length)] as T;
const chance = (p: number): boolean => random() < p;
const some = <T>(list: readonly T[]): T[] => list.filter(() => chance(0.5));
const bearer = (token: string): Record<string, string> => ({ authorization: `Bearer ${token}` });

let service: TestService;
let receiver: Receiver;
beforeAll(async () => {
  service = await startService({ WEBHOOK_ALLOWED_CIDRS: '127.0.0.1/32' });
  receiver = await startReceiver();
});
afterAll(async () => {
  await receiver.stop();
  await service.stop();
});

const DEALS = ['title', 'amount', 'stage', 'secret', 'due', 'company'];

async function newTenant(): Promise<TestTenant> {
  const tenant = await service.tenant();
  await createDeals(tenant);
  return tenant;
}

const ask = (tenant: TestTenant, question: Json): Promise<Answer> => tenant.post('/api/access/explain', question);

/** A credential, and how it is explained. */
interface Holder {
  as: { kind: string; id: string | null };
  headers: Record<string, string>;
  role: string | null;
}

async function holderOf(headers: Record<string, string>): Promise<Holder> {
  const { kind, id, role } = (await clientOf(service.url, headers).get('/api/auth/whoami')).body.data;
  return { as: { kind, id }, headers, role };
}

describe('an explanation', () => {
  let tenant: TestTenant;
  let record: Json;
  beforeAll(async () => {
    tenant = await newTenant();
    record = (await tenant.post('/api/entities/deals/records', { title: 'pump', stage: 'lost' })).body.data;
  });

  test('names the reason for the decision, and what to change', async () => {
    const { id, name } = await addRole(service, tenant, {
      permissions: { deals: ['read'] },
      entities: { deals: { excludeFields: ['secret'], rowFilter: 'stage != lost' } },
    });
    const key = await platformKey(service, tenant, name, { deals: ['update'] });
    const [user, api, open, bot] = [
      await holderOf(bearer(await userToken(service, tenant, name))),
      await holderOf(bearer(key)),
      await holderOf({ 'x-public-key': await publicKey(service, tenant, id) }),
      await holderOf(bearer(await botToken(service, tenant, { companies: ['read'] }))),
    ];
    const about = { entity: 'deals', operation: 'read' };
    const visible = DEALS.filter((field) => field !== 'secret');
    const row = { matches: false, condition: 'stage != lost' };
    const shown = { visible, hidden: ['secret'] };
    const none = { visible: [], hidden: DEALS };
    const cases: [Json, Json, RegExp][] = [
      [{ as: { role: name }, ...about }, { allowed: true, source: 'role', fields: shown, row: null }, /for the rows/],
      [{ as: user.as, ...about, record_id: record.id }, { source: 'role', fields: shown, row }, /hides this record/],
      [{ as: user.as, ...about, operation: 'create' }, { source: 'role', fields: none, row: null }, /does not grant/],
      [{ as: api.as, ...about }, { source: 'api', fields: none, row: null }, /to the permissions of the API/],
      [
        { as: api.as, ...about, operation: 'update', record_id: record.id },
        { source: 'role', fields: shown, row },
        /404/,
      ],
      [{ as: open.as, ...about, operation: 'delete' }, { source: 'credential', fields: none, row: null }, /only reads/],
      [{ as: open.as, ...about, channel: 'mcp' }, { source: 'credential', fields: none, row: null }, /POST/],
      [{ as: bot.as, ...about }, { source: 'bot', fields: none, row: null }, /to the bot’s permissions/],
      [{ as: bot.as, ...about, channel: 'webhook' }, { source: 'channel', fields: none, row: null }, /has none/],
      [{ as: user.as, ...about, channel: 'sse' }, { source: 'channel', fields: none, row: null }, /transitions/],
      [
        { as: user.as, ...about, operation: 'update', channel: 'changes' },
        { source: 'channel', fields: none, row: null },
        /rest or mcp/,
      ],
      [{ as: { kind: 'super_admin' }, ...about }, { allowed: true, source: 'credential', row: null }, /super-admin/],
      [{ as: { kind: 'admin_key' }, ...about }, { source: 'credential', fields: none, row: null }, /cannot be used/],
    ];
    for (const [question, expected, text] of cases) {
      const { status, body } = await ask(tenant, question);
      const { decidedBy, ...rest } = body.data ?? {};
      const found = { ...rest, source: decidedBy?.source };
      expect([question, status, found]).toMatchObject([question, 200, { allowed: false, ...expected }]);
      expect([question, decidedBy.text]).toEqual([question, expect.stringMatching(text)]);
    }
  });

  test('says that a credential has ended, and asking is no use of one', async () => {
    const made = (await tenant.post('/api/keys', { label: 'nightly' })).body.data;
    const question = { as: { kind: 'owner_key', id: made.id }, operation: 'read', entity: 'deals' };
    expect((await ask(tenant, question)).body.data.allowed).toBe(true);
    await tenant.delete(`/api/keys/${made.id}`);
    const { allowed, decidedBy } = (await ask(tenant, question)).body.data;
    expect([allowed, decidedBy.source, decidedBy.name]).toEqual([false, 'credential', 'nightly']);
    expect(decidedBy.text).toMatch(/ended at .*make another/);
    const listed = (await tenant.get('/api/keys')).body.data.find(({ id }: Json) => id === made.id);
    expect(listed?.lastUsedAt ?? null).toBeNull();
    const user = await holderOf(bearer(await userToken(service, tenant, 'member')));
    await tenant.patch(`/api/users/${user.as.id}`, { isActive: false });
    const off = (await ask(tenant, { ...question, as: user.as })).body.data;
    expect([off.allowed, off.decidedBy.text]).toEqual([false, expect.stringMatching(/isActive/)]);
  });

  test('of something malformed or unknown is a 400 that names all of it, and of another tenant the same', async () => {
    const question = { as: {}, operation: 'fly', entity: 'nothing', record_id: '7', channel: 'fax', more: 1 };
    const refused = await ask(tenant, question);
    expect(refused.status).toBe(400);
    expect(refused.body.error.details.map(({ path }: Json) => path).sort()).toEqual([
      'as.kind',
      'channel',
      'entity',
      'more',
      'operation',
      'record_id',
    ]);
    const other = await newTenant();
    const theirs = (await other.post('/api/entities/deals/records', { title: 'x' })).body.data.id;
    const credentials = await everyKind(service, other);
    const { legacy_public_key: _, admin_key: __, super_admin: ___, ...bound } = credentials;
    const unknown = '00000000-0000-7000-8000-000000000000';
    const about = { operation: 'read', entity: 'deals' };
    for (const headers of Object.values(bound)) {
      const { as } = await holderOf(headers);
      const of = async (id: string | null, record_id: string): Promise<Json> => {
        const { status, body } = await ask(tenant, { as: { ...as, id }, ...about, record_id });
        return [status, body.error.details];
      };
      const found = await of(as.id, theirs);
      expect(found).toEqual(await of(unknown, unknown));
      expect([found[0], found[1].map(({ path }: Json) => path)]).toEqual([400, ['as.id', 'record_id']]);
    }
    for (const as of [{ role: 'nobody' }, { role: 'member', kind: 'user' }, { kind: 'user' }, null, 7]) {
      expect([as, (await ask(tenant, { ...about, as })).status]).toEqual([as, 400]);
    }
    for (const body of [null, [], 'x']) expect((await ask(tenant, body)).status).toBe(400);
  });
});

const ALL = [...OPERATIONS];
/** Stands for the role of a subscription without a role. */
const EVERYTHING = '(everything)';

function randomRole(): RoleInput {
  const restriction = (filters: readonly { text: string }[]): NonNullable<RoleInput['entities']>[string] => ({
    ...(chance(0.4) ? { fields: some(DEALS) } : {}),
    ...(chance(0.4) ? { excludeFields: some(DEALS) } : {}),
    ...(chance(0.6) ? { rowFilter: pick(filters).text } : {}),
  });
  const permissions = { companies: ALL.slice(0, 1), deals: some(ALL), ...(chance(0.2) ? { '*': some(ALL) } : {}) };
  return { permissions, entities: { deals: restriction(ROW_FILTERS) } };
}

/** What one credential, or one role's webhook, was shown of each deal: the keys of the fields. */
type Seen = Map<string, string[]>;

const keysOf = (data: Json): string[] => DEALS.filter((key) => Object.hasOwn(data ?? {}, key));

class Listeners {
  readonly #waits: ((label: string) => Promise<void>)[] = [];
  /** By credential, or role. */
  readonly seen: Record<'sse' | 'websocket' | 'webhook', Map<string, () => Seen>> = {
    sse: new Map(),
    websocket: new Map(),
    webhook: new Map(),
  };
  readonly subscriptions: string[] = [];

  constructor(readonly tenant: TestTenant) {}

  async listenAs(holder: Holder): Promise<void> {
    const { tenant } = this;
    const client = clientOf(service.url, holder.headers);
    const ticket = async (): Promise<string | undefined> =>
      (await client.post(`/api/v1/tenants/${tenant.slug}/events/tickets`, {})).body.data?.ticket;
    const [first, second] = [await ticket(), await ticket()];
    if (first === undefined || second === undefined) return;
    const stream = await connectEvents(service.url, tenant.slug, '', `?ticket=${first}`);
    const events = (): Json[] =>
      stream.events.filter(({ event }) => event === 'record.updated').map(({ data }) => data);
    this.seen.sse.set(nameOf(holder), () => new Map(events().map((e) => [e.record_id, keysOf(e.data.fields)])));
    const socket = await openSocket(service.url);
    await socket.ask({ type: 'auth', token: second });
    for (const entity of ['deals', 'companies']) await socket.ask({ type: 'subscribe', entity });
    const messages = (): Json[] => socket.messages.filter(({ type }) => type === 'record.updated');
    this.seen.websocket.set(nameOf(holder), () => new Map(messages().map(({ data }) => [data.id, keysOf(data)])));
    this.#waits.push(async (label) => {
      const isThere = (): boolean => stream.text.includes(label) && JSON.stringify(socket.messages).includes(label);
      await until(isThere, 60_000, () => `no ${label} for ${nameOf(holder)}`);
      stream.close();
      socket.close();
    });
  }

  async subscribe(role: string | null): Promise<void> {
    const path = `/${this.tenant.slug}/${role}`;
    const subscription = { entity_name: 'deals', event_types: ['record.updated'], role, url: receiver.url + path };
    const made = await this.tenant.post('/api/webhooks/subscriptions', subscription);
    if (made.status === 201) this.subscriptions.push(made.body.data.id);
    const bodies = (): Json[] => receiver.received.filter((one) => one.path === path).map(({ body }) => body);
    this.seen.webhook.set(role ?? EVERYTHING, () => new Map(bodies().map(({ data }) => [data.id, keysOf(data)])));
  }

  /** Resolves once `changes` have been delivered to subscribers that see everything, and nothing waits. */
  async delivered(changes: number): Promise<void> {
    const all = this.seen.webhook.get(EVERYTHING) as () => Seen;
    await until(
      () => all().size === changes,
      60_000,
      () => `${all().size} of ${changes} deliveries`,
    );
    await judgedChanges(service.app.db, this.tenant.id);
    for (const id of this.subscriptions) await settledDeliveries(this.tenant, id, 0);
  }

  async until(label: string): Promise<void> {
    for (const wait of this.#waits) await wait(label);
  }
}

const nameOf = ({ as: { kind, id } }: Holder): string => `${kind} ${id}`;

/** Whether a call over REST or MCP is admitted to the entity, or to the record. Only reads have an effect. */
async function isAdmitted(
  { headers }: Holder,
  channel: 'rest' | 'mcp',
  operation: (typeof OPERATIONS)[number],
  id: string | null,
): Promise<{ isAllowed: boolean; keys?: string[] }> {
  const nobody = '00000000-0000-7000-8000-000000000000';
  const records = `${service.url}/api/entities/deals/records`;
  if (channel === 'mcp') {
    const names = { read: 'query_records', create: 'create_record', update: 'update_record', delete: 'delete_record' };
    const name = operation === 'read' && id !== null ? 'get_record' : names[operation];
    const data = operation === 'create' ? { nothing: 1 } : {};
    const input = {
      entity_name: 'deals',
      ...(operation === 'read' && id === null
        ? { limit: 1 }
        : operation === 'create'
          ? {}
          : { record_id: id ?? nobody }),
      ...(operation === 'create' || operation === 'update' ? { data } : {}),
    };
    const { status, text } = await callTool(service.url, name, input, headers);
    if (status !== 200) return { isAllowed: false };
    const { isError, content, structuredContent } = JSON.parse(text.slice(text.indexOf('{'))).result;
    const code = isError === true ? JSON.parse(content[0].text).error.code : 'OK';
    const isAllowed = expectedOutcome(
      operation,
      id,
      { OK: 200, VALIDATION_ERROR: 400, NOT_FOUND: 404 }[code as string],
    );
    return { isAllowed, ...(name === 'get_record' && isAllowed ? { keys: keysOf(structuredContent) } : {}) };
  }
  const options = { read: 'GET', create: 'POST', update: 'PATCH', delete: 'DELETE' };
  const body = operation === 'create' ? '{"nothing":1}' : operation === 'update' ? '{}' : null;
  const path = operation === 'create' ? '' : operation === 'read' && id === null ? '?limit=1' : `/${id ?? nobody}`;
  const response = await fetch(records + path, {
    method: options[operation],
    headers: {
      ...headers,
      ...(body === null ? {} : { 'content-type': 'application/json' }),
      // A deletion is refused once the record is found.
      ...(operation === 'delete' ? { 'if-match': '"0"' } : {}),
    },
    body,
  });
  const isAllowed = expectedOutcome(operation, id, response.status);
  const { data } = (await response.json()) as Json;
  return { isAllowed, ...(operation === 'read' && id !== null && isAllowed ? { keys: keysOf(data) } : {}) };
}

/** The status that says that the caller was admitted, for the calls above. */
function expectedOutcome(operation: string, id: string | null, status: number | undefined): boolean {
  if (operation === 'create') return status === 400;
  if (operation === 'read') return status === 200;
  if (id === null) return status === 404;
  return status === (operation === 'update' ? 200 : 412);
}

test(`explanations agree with the outcome of calls, feeds, streams and webhooks (SEED=${SEED})`, async () => {
  const tenant = await newTenant();
  const made = async (entity: string, values: Json): Promise<string> =>
    (await tenant.post(`/api/entities/${entity}/records`, values)).body.data.id;
  const companies: string[] = [];
  for (const country of ['DE', 'FR', null]) companies.push(await made('companies', { label: 'alpha', country }));
  const roles: { id: string; name: string }[] = [];
  for (let i = 0; i < 4; i++) roles.push(await addRole(service, tenant, randomRole()));
  const unfit = { permissions: { companies: ALL, deals: ALL }, entities: { deals: { rowFilter: 'no_more = 1' } } };
  roles.push(await addRole(service, tenant, unfit));
  const { legacy_public_key: _, bot: __, ...kinds } = await everyKind(service, tenant);
  const headers: Record<string, string>[] = [
    ...Object.values({ ...kinds, super_admin: { ...kinds.super_admin, 'x-tenant-id': tenant.slug } }),
  ];
  for (const { id, name } of roles) {
    const api = { deals: some(ALL), companies: ['read' as const] };
    headers.push(bearer(await userToken(service, tenant, name, pick(['user', 'developer']))));
    headers.push(bearer(await platformKey(service, tenant, name, api)));
    headers.push({ 'x-public-key': await publicKey(service, tenant, id), 'x-tenant-id': tenant.slug });
    headers.push(bearer(await botToken(service, tenant, api)));
  }
  const holders: Holder[] = [];
  for (const one of headers) holders.push(await holderOf(one));
  const deals: string[] = [];
  for (let i = 0; i < 20; i++) {
    const values = {
      title: pick(['x', null]),
      amount: pick([null, 1, 7, 15]),
      stage: pick(['open', 'won', 'lost', null]),
      secret: pick(['abc', 'b', null]),
      due: pick(['2001-01-01T00:00:00.000Z', '2199-01-01T00:00:00.000Z', null]),
      company: pick([...companies, null]),
    };
    const author = chance(0.5) ? undefined : holders.find(({ role }) => role === 'admin');
    const client = author === undefined ? tenant : clientOf(service.url, author.headers);
    deals.push((await client.post('/api/entities/deals/records', values)).body.data.id);
  }

  const listeners = new Listeners(tenant);
  for (const holder of holders) await listeners.listenAs(holder);
  for (const role of new Set([null, ...holders.map(({ role }) => role)])) await listeners.subscribe(role);
  const cursors = new Map<string, string>();
  for (const holder of holders) {
    const page = await clientOf(service.url, holder.headers).get('/api/changes');
    if (page.status === 200) cursors.set(nameOf(holder), page.body.data.nextCursor);
  }
  const touched = await tenant.post('/api/entities/deals/records/bulk', {
    operations: deals.map((id) => ({ op: 'update', id, data: {} })),
  });
  expect(touched.status, touched.text).toBe(200);
  await listeners.delivered(deals.length);

  const changes = new Map<string, Seen>();
  for (const holder of holders) {
    const cursor = cursors.get(nameOf(holder));
    const client = clientOf(service.url, holder.headers);
    const page = cursor === undefined ? undefined : await client.get(`/api/changes?limit=1000&since=${cursor}`);
    const items: Json[] = page?.body.data.items ?? [];
    changes.set(nameOf(holder), new Map(items.map(({ record_id: id, data }) => [id, keysOf(data)])));
  }

  const asked: { question: Json; holder: Holder; answer: Json }[] = [];
  let compared = 0;
  for (let i = 0; i < CASES; i++) {
    const holder = pick(holders);
    const channel = pick(CHANNELS);
    const operation = CHANNELS.indexOf(channel) < 2 ? pick(OPERATIONS) : chance(0.9) ? 'read' : pick(OPERATIONS);
    // Over MCP, a deletion that is admitted would happen.
    const isNone = (channel === 'mcp' && operation === 'delete') || chance(0.2);
    const id = isNone ? null : pick(deals);
    const isRole = channel === 'webhook' && roles.some(({ name }) => name === holder.role) && chance(0.5);
    const as = isRole ? { role: holder.role } : holder.as;
    const question = { as, operation, entity: 'deals', record_id: id, channel };
    const answer = await fetch(`${service.url}/api/access/explain`, {
      method: 'POST',
      headers: { 'x-api-key': tenant.key, 'content-type': 'application/json' },
      body: JSON.stringify(question),
    });
    const { data } = (await answer.json()) as Json;
    if (channel !== 'rest' && channel !== 'mcp') {
      asked.push({ question, holder, answer: data });
      continue;
    }
    const { isAllowed, keys } = await isAdmitted(holder, channel, operation, id);
    expect([holder.as, question, data.decidedBy, data.allowed]).toEqual([
      holder.as,
      question,
      data.decidedBy,
      isAllowed,
    ]);
    if (keys !== undefined) expect([question, data.fields.visible]).toEqual([question, keys]);
    compared += 1;
  }

  // Everybody may read companies: once this one has been received, all has been that will be.
  const last = await made('companies', { label: 'the last' });
  await listeners.until(last);
  await listeners.delivered(deals.length);

  for (const { question, holder, answer } of asked) {
    const { channel, record_id: id, operation } = question;
    // Without a record, the channel shows something or nothing: that is known of the records alone.
    if (id === null && answer.allowed) continue;
    const webhook = (): Seen => {
      const { role, as } = holder;
      const isAdmin = role === null ? as.kind === 'super_admin' : ['owner', 'admin'].includes(role);
      return listeners.seen.webhook.get(isAdmin ? EVERYTHING : (role ?? ''))?.() ?? new Map();
    };
    const seen =
      channel === 'changes'
        ? changes.get(nameOf(holder))
        : channel === 'webhook'
          ? webhook()
          : listeners.seen[channel as 'sse'].get(nameOf(holder))?.();
    const found = operation === 'read' && (id === null ? (seen?.size ?? 0) > 0 : seen?.has(id) === true);
    const about = [holder.as, holder.role, question, answer.decidedBy];
    expect([...about, answer.allowed]).toEqual([...about, found]);
    if (found) expect([...about, answer.fields.visible]).toEqual([...about, seen?.get(id)]);
    compared += 1;
  }
  expect(compared).toBeGreaterThan(CASES / 2);
}, 120_000);
