// Streams agree with REST: with random roles and changes, SSE and WebSocket show each change as REST shows the record to
// the same caller at that moment, and nothing of entities that the caller may not read or that have a row filter.
// Webhooks carry whole records, for tenant admins only.
// Contract: interface#websocket, decisions#sse, decisions#websocket.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import process from 'node:process';
import fc from 'fast-check';
import { addRole, platformKey, publicKey, type RoleInput } from './support/credentials.ts';
import { fields, tenantWithEntities } from './support/entities.ts';
import { type Receiver, startReceiver } from './support/receiver.ts';
import {
  type Client,
  clientOf,
  type Json,
  startService,
  type TestService,
  type TestTenant,
} from './support/service.ts';
import { connectEvents, openSocket, until } from './support/streams.ts';

const RUNS = Number(process.env.STREAM_AGREEMENT_RUNS ?? 4);
/** Changes per run, not counting the final marker. */
const CHANGES = 12;
const ENTITIES = ['alpha', 'beta', 'gamma'] as const;
const FIELDS = ['a', 'b', 'c'] as const;
const SYSTEM = ['id', 'entityId', 'createdAt', 'updatedAt', 'createdBy', 'updatedBy'];

let service: TestService;
let receiver: Receiver;
beforeAll(async () => {
  service = await startService({ WEBHOOK_ALLOWED_CIDRS: '127.0.0.1/32' });
  receiver = await startReceiver();
});
afterAll(async () => {
  await service.stop();
  await receiver.stop();
});

/** A role's restriction on one entity. */
const restriction = fc.record({
  reads: fc.boolean(),
  fields: fc.option(fc.subarray([...FIELDS]), { nil: undefined }),
  excludeFields: fc.option(fc.subarray([...FIELDS]), { nil: undefined }),
  rowFilter: fc.option(fc.constantFrom('a > 4', 'b = "x" OR c is null', 'NOT (a = 1)'), { nil: undefined, freq: 3 }),
});
type Restriction = typeof restriction extends fc.Arbitrary<infer T> ? T : never;
/** A role that receives an event for every change. */
const SEEING: Restriction[] = [
  { reads: true, fields: undefined, excludeFields: undefined, rowFilter: undefined },
  { reads: true, fields: ['a'], excludeFields: undefined, rowFilter: undefined },
  { reads: true, fields: undefined, excludeFields: ['a', 'b'], rowFilter: undefined },
];
/** The SSE stream and WebSocket of its platform key, and the WebSocket of its public key. */
const SEEING_CHANNELS = 3;

const values = fc.record(
  {
    a: fc.option(fc.integer({ min: 0, max: 9 })),
    b: fc.option(fc.constantFrom('x', 'y', '"✓\n')),
    c: fc.option(fc.boolean()),
  },
  { requiredKeys: [] },
);
const change = fc.record({
  op: fc.constantFrom('create', 'patch', 'put', 'delete', 'bulk'),
  entity: fc.constantFrom(...ENTITIES),
  /** Selects an existing record. */
  which: fc.nat(),
  values: fc.array(values, { minLength: 4, maxLength: 4 }),
});
type Change = typeof change extends fc.Arbitrary<infer T> ? T : never;

/** A credential that reads over REST and over its streams. */
interface Reader {
  rest: Client;
  sse: () => Json[];
  ws: () => Json[];
  /** The messages expected for each change; a bulk request has several. */
  expected: { sse: Json[][]; ws: Json[][] };
  hasSse: boolean;
  /** Everything received, for the message of a failure. */
  received(): string;
  /** Whether the role has a row filter on the entity. */
  isFiltered(entity: string): boolean;
  close(): void;
}

test('SSE and WebSocket show each change as REST shows the record, or not at all', async () => {
  let shownChanges = 0;
  const property = fc.asyncProperty(
    fc.array(fc.tuple(restriction, restriction, restriction), { minLength: 3, maxLength: 3 }),
    fc.array(change, { minLength: CHANGES, maxLength: CHANGES }),
    async (roles, changes) => {
      const tenant = await newTenant();
      const seeing = await readersOf(tenant, SEEING);
      const readers = [seeing, ...(await Promise.all(roles.map((role) => readersOf(tenant, role))))].flat();
      const ids: Record<string, string[]> = { alpha: [], beta: [], gamma: [], marker: [] };
      const end: Change = { op: 'create', entity: 'marker' as 'alpha', which: 0, values: [{}, {}, {}, {}] };
      for (const one of [...changes, end]) await apply(tenant, one, ids, readers);
      for (const reader of readers) {
        for (const channel of ['sse', 'ws'] as const) {
          if (channel === 'sse' && !reader.hasSse) continue;
          const expected = reader.expected[channel];
          const hasMarker = (): boolean => reader[channel]().some(({ entity }) => entity === 'marker');
          await until(hasMarker, 60_000, () => `no marker on ${channel}: ${reader.received()}`);
          expect(chunked(reader[channel](), expected)).toEqual(expected);
          if (seeing.includes(reader)) shownChanges += expected.filter(({ length }) => length > 0).length;
        }
        reader.close();
      }
    },
  );
  await fc.assert(property, { numRuns: RUNS, endOnFailure: true });
  expect(shownChanges).toBe(RUNS * SEEING_CHANNELS * (CHANGES + 1));
});

test('webhooks are for tenant admins and carry what REST shows the owner', async () => {
  const tenant = await newTenant();
  const subscription = { entity_name: 'alpha', event_types: ['record.created', 'record.deleted'], url: receiver.url };
  const role = await addRole(service, tenant, {
    permissions: { '*': ['read', 'create', 'update', 'delete'] },
    entities: { alpha: { excludeFields: ['a'] } },
  });
  const key = await platformKey(service, tenant, role.name, { '*': ['read', 'create', 'update', 'delete'] });
  const limited = clientOf(service.url, { authorization: `Bearer ${key}` });
  for (const path of ['/api/webhooks/subscriptions', '/api/webhooks/deliveries/x/redeliver']) {
    expect((await limited.post(path, subscription)).status).toBe(403);
  }
  expect((await tenant.post('/api/webhooks/subscriptions', subscription)).status).toBe(201);
  const { id } = (await limited.post('/api/entities/alpha/records', { b: 'x' })).body.data;
  const shown = (await tenant.get(`/api/entities/alpha/records/${id}`)).body.data;
  await tenant.delete(`/api/entities/alpha/records/${id}`);
  const sent = await receiver.waitFor(2);
  expect(sent.map(({ body }) => body.data)).toEqual([shown, shown]);
});

const newTenant = () =>
  tenantWithEntities(service, [...ENTITIES, 'marker'], fields('a integer', 'b text', 'c boolean'));

/** A platform key with both channels and a public key with a WebSocket, of one role. */
async function readersOf(tenant: TestTenant, restrictions: readonly Restriction[]): Promise<Reader[]> {
  const permissions: RoleInput['permissions'] = { marker: ['read'] };
  const entities: RoleInput['entities'] = {};
  restrictions.forEach(({ reads, ...rule }, i) => {
    const name = ENTITIES[i] as string;
    if (reads) permissions[name] = ['read'];
    entities[name] = JSON.parse(JSON.stringify(rule));
  });
  const role = await addRole(service, tenant, { permissions, entities });
  const platform = await platformKey(service, tenant, role.name, permissions);
  const open = await publicKey(service, tenant, role.id);
  const isFiltered = (entity: string): boolean => entities[entity]?.rowFilter !== undefined;
  const connecting = [
    readerOf(tenant, platform, { authorization: `Bearer ${platform}` }, true),
    readerOf(tenant, open, { 'x-public-key': open, 'x-tenant-id': tenant.slug }, false),
  ];
  return (await Promise.all(connecting)).map((reader) => ({ ...reader, isFiltered }));
}

async function readerOf(
  tenant: TestTenant,
  token: string,
  headers: Record<string, string>,
  hasSse: boolean,
): Promise<Omit<Reader, 'isFiltered'>> {
  const stream = hasSse ? await connectEvents(service.url, tenant.slug, token) : null;
  const socket = await openSocket(service.url);
  expect((await socket.ask({ type: 'auth', token })).type).toBe('auth_ok');
  for (const entity of ENTITIES) await socket.ask({ type: 'subscribe', entity });
  expect((await socket.ask({ type: 'subscribe', entity: 'marker' })).type).toBe('subscribed');
  const isRecord = ({ type }: Json): boolean => type.startsWith('record.');
  return {
    rest: clientOf(service.url, headers),
    sse: () =>
      (stream?.events ?? [])
        .map(({ data }) => data)
        .filter(isRecord)
        .map(({ type, entity, record_id, data }) => ({ type, entity, record_id, fields: data.fields })),
    ws: () => socket.messages.filter(isRecord),
    expected: { sse: [], ws: [] },
    hasSse,
    received: () => JSON.stringify({ stream: stream?.text, messages: socket.messages, closed: socket.closed }),
    close: () => {
      stream?.close();
      socket.close();
    },
  };
}

/** Applies a change as the owner, and records the messages that every reader should receive. */
async function apply(tenant: TestTenant, one: Change, ids: Record<string, string[]>, readers: Reader[]): Promise<void> {
  const { entity } = one;
  const known = ids[entity] as string[];
  const { deleted, changed, perform } = planned(tenant, one, known);
  const before = await Promise.all(readers.map((reader) => shown(reader, entity, 'record.deleted', deleted)));
  const created = await perform();
  const after = await Promise.all(
    readers.map(async (reader) => [
      ...(await shown(reader, entity, 'record.created', created)),
      ...(await shown(reader, entity, 'record.updated', changed)),
    ]),
  );
  ids[entity] = [...known.filter((id) => !deleted.includes(id)), ...created];
  readers.forEach(({ expected }, i) => {
    const messages = [...(before[i] as Message[]), ...(after[i] as Message[])].sort(byRecord);
    expected.sse.push(messages.map(({ sse }) => sse));
    expected.ws.push(messages.map(({ ws }) => ws));
  });
}

interface Plan {
  deleted: string[];
  changed: string[];
  /** Resolves to the ids of the created records. */
  perform(): Promise<string[]>;
}

/** The effect of a change on the existing records. A bulk request creates two, changes one and deletes one. */
function planned(tenant: TestTenant, { op, entity, which, values }: Change, known: readonly string[]): Plan {
  const path = `/api/entities/${entity}/records`;
  const [one, other] = [known[which % known.length], known[(which + 1) % known.length]];
  const send = async (method: string, address: string, body?: unknown): Promise<Json> => {
    const answer = await tenant.request(method, address, body);
    expect([200, 201], answer.text).toContain(answer.status);
    return answer.body.data;
  };
  if (op === 'bulk' && one !== undefined && other !== undefined && one !== other) {
    const operations = [
      { op: 'create', data: values[0] },
      { op: 'update', id: one, data: values[1] },
      { op: 'create', data: values[2] },
      { op: 'delete', id: other },
    ];
    const perform = async (): Promise<string[]> => {
      const { results } = await send('POST', `${path}/bulk`, { operations });
      return [results[0].id, results[2].id];
    };
    return { deleted: [other], changed: [one], perform };
  }
  if (op === 'create' || op === 'bulk' || one === undefined) {
    return { deleted: [], changed: [], perform: async () => [(await send('POST', path, values[0])).id] };
  }
  const isDeletion = op === 'delete';
  const perform = async (): Promise<string[]> => {
    await send(op.toUpperCase(), `${path}/${one}`, isDeletion ? undefined : values[0]);
    return [];
  };
  return { deleted: isDeletion ? [one] : [], changed: isDeletion ? [] : [one], perform };
}

interface Message {
  sse: Json;
  ws: Json;
}

/** These records as REST shows them to the reader now, in the formats of the channels. */
async function shown({ rest, isFiltered }: Reader, entity: string, type: string, ids: string[]): Promise<Message[]> {
  if (isFiltered(entity)) return [];
  const answers = await Promise.all(ids.map((id) => rest.get(`/api/entities/${entity}/records/${id}`)));
  return answers
    .filter(({ status }) => status === 200)
    .map(({ body: { data } }) => ({
      sse: { type, entity, record_id: data.id, fields: withoutSystemFields(data) },
      ws: {
        type,
        entity,
        data:
          type === 'record.deleted'
            ? { id: data.id }
            : { ...data, created_at: data.createdAt, updated_at: data.updatedAt },
      },
    }));
}

function withoutSystemFields(record: Json): Json {
  return Object.fromEntries(Object.entries(record).filter(([key]) => !SYSTEM.includes(key)));
}

function byRecord(a: Message, b: Message): number {
  return a.sse.record_id < b.sse.record_id ? -1 : 1;
}

/** The received messages in chunks as long as the expected ones; the rest is one more chunk. */
function chunked(received: readonly Json[], expected: readonly Json[][]): Json[][] {
  const idOf = (message: Json): string => message.record_id ?? message.data.id;
  let at = 0;
  const chunks = expected.map(({ length }) => {
    at += length;
    return received.slice(at - length, at).toSorted((a, b) => (idOf(a) < idOf(b) ? -1 : 1));
  });
  return at < received.length ? [...chunks, received.slice(at)] : chunks;
}
