// Every output of the service, requested by callers whose role hides fields and rows or lacks an entity. Two tenants differ only
// in what is hidden: names, values, numbers of rows, definitions, rules, conditions. The same requests must get the same answers
// in both, byte for byte except ids and times, on every channel, and no answer contains a hidden value.
// Contract: decisions#roles, decisions#responses, decisions#writes-within-a-role.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { setTimeout as delay } from 'node:timers/promises';
import { closeAfterEach } from './support/connections.ts';
import { addRole, bearer, botToken, platformKey, userToken, withRole } from './support/credentials.ts';
import { createEntity, createRecord } from './support/entities.ts';
import { callTool } from './support/mcp-calls.ts';
import { createPublicKey } from './support/people.ts';
import { seededRandom } from './support/random.ts';
import {
  type Answer,
  type Client,
  type Json,
  startService,
  type TestService,
  type TestTenant,
} from './support/service.ts';
import { connectEvents, subscribeSocket } from './support/streams.ts';

const SEED = Number(process.env.LEAK_MATRIX_SEED ?? 20_261_122);
const MIXES = Number(process.env.LEAK_MATRIX_MIXES ?? 150);
/** A mix is tried as only every second caller. */
const KINDS_APART = 2;
const ALL = ['read', 'create', 'update', 'delete'] as const;

let service: TestService;
let worlds: World[];
beforeAll(async () => {
  service = await startService();
  worlds = [await build('xsecret', 3), await build('yhidden', 5)];
}, 120_000);
afterAll(async () => service.stop());
const keep = closeAfterEach();

/** A tenant and its restricted callers. Everything that they may not see contains `canary`. */
interface World {
  canary: string;
  owner: TestTenant;
  callers: Map<string, Client & { token: string }>;
  /** A visible record, a hidden one, and one of the entity that the role lacks. */
  ids: { shown: string; hidden: string; lacking: string; target: string; hiddenTarget: string };
}

/** The names of the first world's hidden things, which requests to both worlds contain. */
const GUESS = 'xsecret';

async function build(canary: string, hiddenRows: number): Promise<World> {
  const owner = await service.tenant();
  const made = async (path: string, body: Json): Promise<Json> => {
    const answer = await owner.post(path, body);
    if (answer.status !== 201) throw new Error(`${path}: ${answer.text}`);
    return answer.body.data;
  };
  const text = { type: 'text' };
  const flag = { key: `${canary}_flag`, type: 'boolean' };
  await made('/api/entities', {
    name: `${canary}_vault`,
    label: canary,
    fields: [{ key: `${canary}_line`, ...text, default: canary }],
  });
  await made('/api/entities', {
    name: 'place',
    fields: [{ key: 'city', ...text }, { key: `${canary}_zip`, ...text }, flag],
  });
  await made('/api/entities', {
    name: 'note',
    fields: [
      { key: 'title', ...text, maxLength: 40 },
      { key: 'code', ...text, unique: true },
      { key: 'kind', type: 'select', options: ['a', 'b'] },
      { key: 'rank', type: 'integer', indexed: true },
      { key: 'place', type: 'relation', entity: 'place' },
      { key: 'places', type: 'relations', entity: 'place' },
      { ...flag, default: true },
      { key: canary, ...text, pattern: `^${canary}`, default: `${canary} default`, label: canary, description: canary },
      { key: `${canary}_no`, ...text, unique: true },
      { key: `${canary}_kind`, type: 'select', options: [canary, `${canary}2`] },
      { key: `${canary}_sum`, type: 'decimal', indexed: true },
      { key: `${canary}_link`, type: 'relation', entity: `${canary}_vault`, onDelete: 'set_null' },
    ],
  });
  await made('/api/entities', {
    name: 'memo',
    fields: [
      { key: 'title', ...text },
      { key: canary, ...text },
    ],
  });
  const lacking = (await made(`/api/entities/${canary}_vault/records`, { [`${canary}_line`]: canary })).id;
  const target = (
    await made('/api/entities/place/records', { city: 'Rome', [`${canary}_zip`]: canary, [flag.key]: true })
  ).id;
  const hiddenTarget = (await made('/api/entities/place/records', { city: canary, [flag.key]: false })).id;
  const hiddenValues = (i: number): Json => ({
    [canary]: `${canary} ${i}`,
    [`${canary}_no`]: `${canary}${i}`,
    [`${canary}_kind`]: i % 2 === 0 ? canary : `${canary}2`,
    [`${canary}_sum`]: `${(canary.charCodeAt(0) * 7 + i * 13) % 50}.5`,
    [`${canary}_link`]: lacking,
  });
  const records = '/api/entities/note/records';
  let hidden = '';
  const shown: string[] = [];
  for (let i = 0; i < 6; i++) {
    const links = { place: i % 2 === 0 ? target : hiddenTarget, places: [target, hiddenTarget] };
    const values = { title: `note ${i % 4}`, code: `c${i}`, kind: i % 2 === 0 ? 'a' : 'b', rank: i % 3, ...links };
    shown.push((await made(records, { ...values, ...hiddenValues(i), [flag.key]: true })).id);
    // Each was created in a millisecond of its own, so that groups by time are the same in both worlds.
    await delay(2);
  }
  for (let i = 0; i < hiddenRows; i++) {
    const values = { title: canary, code: i === 0 ? 'taken' : `${canary}${i}`, rank: 7 + i, place: target };
    hidden = (await made(records, { ...values, ...hiddenValues(100 + i), [flag.key]: false })).id;
  }
  const conditions = [`${flag.key} = true`, 'rank >= 0'].map((condition) => ({ condition }));
  await made('/api/views', { entitySlug: 'note', slug: 'picked', name: 'Picked', filterDsl: { validate: conditions } });
  await made('/api/views', { entitySlug: 'note', slug: `${canary}-view`, name: canary, description: canary });
  const rule = { entity: 'note', trigger: 'before_update', condition: `title = "ruled" and ${canary} != "nothing"` };
  await made('/api/rules', {
    name: 'r',
    ...rule,
    action: { type: 'set', values: { [`${canary}_kind`]: '{{title}}' } },
  });
  await made('/api/webhooks/subscriptions', {
    entity_name: 'note',
    event_types: ['record.created'],
    url: `https://${canary}.example.com/`,
    description: canary,
    is_active: false,
  }).catch(() => undefined);
  const callers = await callersOf(owner, canary);
  return { canary, owner, callers, ids: { shown: shown[0] as string, hidden, lacking, target, hiddenTarget } };
}

async function callersOf(owner: TestTenant, canary: string): Promise<World['callers']> {
  const permissions = { note: [...ALL], memo: [...ALL], place: [...ALL], 'view:picked': ['read' as const] };
  const hiddenKeys = [canary, `${canary}_no`, `${canary}_kind`, `${canary}_sum`, `${canary}_link`, `${canary}_flag`];
  const entities = {
    note: { excludeFields: hiddenKeys, rowFilter: `${canary}_flag = true` },
    memo: { fields: ['title'] },
    place: { excludeFields: [`${canary}_zip`, `${canary}_flag`], rowFilter: `${canary}_flag = true` },
  };
  const role = await addRole(service, owner, { permissions, entities });
  const withoutPlace = await addRole(service, owner, {
    permissions: { note: [...ALL], memo: ['read'] },
    entities: { note: entities.note, memo: entities.memo },
  });
  const reading = { roleId: role.id, rateLimitPerMin: 100_000, rateLimitPerDay: 100_000 };
  const tokens: [string, string][] = [
    ['user', await userToken(service, owner, role.name, 'user', 'clerk@example.com')],
    ['user without place', await userToken(service, owner, withoutPlace.name, 'user', 'other@example.com')],
    ['developer', await userToken(service, owner, role.name, 'developer', 'dev@example.com')],
    ['platform key', await platformKey(service, owner, role.name, permissions)],
    ['bot', await botToken(service, owner, { memo: [] })],
    ['public key', (await createPublicKey(owner, { ...reading, scopes: ['records:read', 'channels:read'] })).key],
    ['public key for records', (await createPublicKey(owner, { ...reading, scopes: ['records:read'] })).key],
    ['public key for channels', (await createPublicKey(owner, { ...reading, scopes: ['channels:read'] })).key],
  ];
  return new Map(tokens.map(([kind, token]) => [kind, { ...bearer(service, token), token }]));
}

const UUID = /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g;
const TIME = /\d{4}-\d\d-\d\dT[\d:.]+Z/g;

/** A text without what differs between any two tenants: ids, slugs, times, cursors, generated names and examples. */
function neutral({ owner, ids }: World, text: string): string {
  const labels = new Map(Object.entries(ids).map(([name, id]) => [id, name]));
  return (
    text
      .replaceAll(owner.slug, 'slug')
      .replaceAll(UUID, (id) => labels.get(id) ?? 'id')
      .replaceAll(TIME, 'time')
      .replaceAll(/(role|bot-|api)\d+/g, '$1')
      // The example of a unique field is made from the field's id.
      .replaceAll(/(\\?"code\\*":\\*"code )[0-9a-z]{4,7}/g, '$1mark')
      .replaceAll(/(\\?"nextCursor\\?":\\?")[^"\\]*/g, '$1more')
  );
}

function shownOf(world: World, { status, headers, text }: Answer): string {
  // Rate limits count down with time; a version counts hidden changes too, as documented.
  const kept = [...headers].filter(
    ([name]) => !/^(date|content-length|etag|changes-cursor|(x-)?ratelimit.*)$/.test(name),
  );
  return neutral(world, `${status} ${JSON.stringify(kept)} ${text}`);
}

const everyKind = (): string[] => [...(worlds[0] as World).callers.keys()];

/** Sends a request to both worlds as each caller; `ids` are replaced. The answers are equal and have no canary. */
async function compare(
  method: string,
  path: string,
  body?: unknown,
  headers: Record<string, string> = {},
  kinds = everyKind(),
) {
  for (const kind of kinds) {
    const seen: string[] = [];
    const sent = `${kind}: ${method} ${path} ${JSON.stringify(body)}`;
    for (const world of worlds) {
      const client = world.callers.get(kind) as Client;
      const filled = (text: string): string =>
        text.replaceAll(/\{(\w+)\}/g, (whole, name: string) => world.ids[name as keyof World['ids']] ?? whole);
      const data = typeof body === 'string' ? filled(body) : body && JSON.parse(filled(JSON.stringify(body)));
      const answer = await client.request(method, filled(path), data, { 'x-request-id': 'same', ...headers });
      expect(answer.status, sent).toBeLessThan(500);
      const text = shownOf(world, answer);
      // The request contains the first world's names; an answer that repeats them is compared with the second world's.
      if (world.canary !== GUESS || !`${path}${JSON.stringify(body)}`.includes(GUESS)) {
        expect(text, sent).not.toContain(world.canary);
      }
      seen.push(text);
    }
    expect(seen[0], sent).toBe(seen[1] as string);
  }
}

const NOTES = '/api/entities/note/records';
/** Visible, hidden and missing names: the hidden ones exist in one world, and have the same answers as missing ones. */
const KEYS = [
  'title',
  'code',
  'rank',
  'kind',
  'place',
  'places',
  'createdAt',
  'id',
  GUESS,
  `${GUESS}_no`,
  `${GUESS}_sum`,
];
const RELATED = [
  'place.city',
  `place.${GUESS}_zip`,
  `place.${GUESS}_flag`,
  `${GUESS}_link.${GUESS}_line`,
  'place.nosuch',
];
const VALUES = [
  '"note 1"',
  '1',
  'a',
  `"${GUESS}"`,
  `"${GUESS} 1"`,
  'null',
  '"Rome"',
  'true',
  '"{target}"',
  '"{hiddenTarget}"',
];

describe('reads', () => {
  test('one parameter at a time', async () => {
    for (const key of KEYS) {
      for (const query of [`sort=${key}`, `sort=-${key}&limit=2`, `fields=${key}`, `filter.${key}=1`]) {
        await compare('GET', `${NOTES}?${query}`);
      }
      for (const metric of ['count', 'sum', 'min']) {
        await compare('GET', `${NOTES}/aggregate?metrics=count,${metric}:${key}&groupBy=${key}`);
      }
    }
  }, 240_000);

  test('paths of records, views, entities and definitions, including those that the role lacks', async () => {
    const ids = ['{shown}', '{hidden}', '{lacking}', '{target}', '{hiddenTarget}', crypto.randomUUID()];
    const bases = ['entities/note', 'entities/place', `entities/${GUESS}_vault`, 'entities/nosuch', 'views/picked'];
    for (const base of [...bases, `views/${GUESS}-view`]) {
      for (const query of ['', '?resolve_depth=2', '?resolve=true&limit=2', '?cursor=&limit=2', '?count=none']) {
        await compare('GET', `/api/${base}/records${query}`);
      }
      for (const id of ids) {
        await compare('GET', `/api/${base}/records/${id}`);
        await compare('GET', `/api/${base}/records/${id}?resolve_depth=2`);
        await compare('GET', `/api/${base}/records/${id}`, undefined, { 'if-none-match': '"1"' });
      }
      await compare('GET', `/api/${base}/records/aggregate`);
      await compare('GET', `/api/${base}/records/export?format=csv`);
      await compare('GET', `/api/${base}/records/export?format=ndjson`);
      await compare('GET', `/api/${base}`);
      await compare('GET', `/api/${base}/fields`);
    }
    const rest = [
      'entities',
      'views',
      'auth/whoami',
      'roles',
      'users',
      'rules',
      'webhooks/subscriptions',
      'keys',
      'tenant',
    ];
    for (const path of [...rest, 'apis', 'auth/bots', 'auth/public-keys', 'invitations', 'tenant/usage']) {
      await compare('GET', `/api/${path}`);
    }
    for (const path of ['/agent-messages', '/swagger/json', '/health', '/metrics']) await compare('GET', path);
  }, 240_000);

  test('random mixes of filters, search, sorting, projection, groups and relations', async () => {
    const random = seededRandom(SEED);
    const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;
    const term = (): string =>
      `${random() < 0.2 ? 'NOT ' : ''}${pick([...KEYS, ...RELATED])} ${pick(['=', '!=', '>', 'contains', 'startsWith'])} ${pick(VALUES)}`;
    const all = everyKind();
    for (let i = 0; i < MIXES; i++) {
      // Each mix is tried as some of the callers, most of which have the same role.
      const kinds = all.filter((_, n) => (n + i) % KINDS_APART === 0);
      const read = (path: string) => compare('GET', path, undefined, {}, kinds);
      const terms = Array.from({ length: 1 + Math.floor(random() * 3) }, term).join(pick([' AND ', ' OR ']));
      const parts = [`filters=${encodeURIComponent(terms).replaceAll('%7B', '{').replaceAll('%7D', '}')}`];
      if (random() < 0.3) parts.push(`search=${pick(['note', GUESS, 'default', 'yhidden'])}`);
      const from = pick(['entities/note', 'entities/note', 'views/picked', 'aggregate', 'export']);
      if (from === 'aggregate') {
        await read(`${NOTES}/aggregate?${parts.join('&')}&groupBy=${pick(KEYS)}`);
        continue;
      }
      if (random() < 0.4) parts.push(`sort=${pick(['', '-'])}${pick(KEYS)}`);
      if (random() < 0.3) parts.push(`fields=${pick(KEYS)},${pick(KEYS)}`);
      if (from === 'export') await read(`${NOTES}/export?${parts.join('&')}`);
      else await read(`/api/${from}/records?${parts.join('&')}&resolve_depth=${pick([1, 2])}`);
    }
  }, 240_000);
});

describe('writes', () => {
  const bodies: Json[] = [
    { title: 'x', [GUESS]: 'wrong' },
    { [GUESS]: `${GUESS} fits` },
    { [GUESS]: null },
    { [`${GUESS}_no`]: `${GUESS}1` },
    { [`${GUESS}_kind`]: 'wrong' },
    { [`${GUESS}_link`]: '{lacking}' },
    { data: { title: 'x' }, [GUESS]: 1 },
    { title: 5, kind: 'c', rank: 'x', code: {}, [GUESS]: 5, nosuch: 1 },
    { code: 'taken' },
    { place: '{hiddenTarget}' },
    { place: '{lacking}' },
    { places: ['{target}', '{hiddenTarget}', '{shown}'] },
    { title: 'x'.repeat(41) },
    { id: '{hidden}', entityId: '{hidden}', createdBy: 'me' },
  ];

  test('refused values and conflicts, alone, in bulk calls and in imports', async () => {
    for (const body of bodies) {
      if (body.code !== 'taken' && body.id === undefined) await compare('PATCH', `${NOTES}/{shown}`, body);
      for (const id of ['{hidden}', '{lacking}', crypto.randomUUID()]) await compare('PATCH', `${NOTES}/${id}`, body);
      if (body.id === undefined) await compare('POST', NOTES, body);
      const operations = [
        { op: 'create', data: body },
        { op: 'update', id: '{hidden}', data: body },
        { op: 'delete', id: '{hidden}' },
        { op: 'delete', id: '{lacking}' },
      ];
      await compare('POST', `${NOTES}/bulk`, { operations: operations.slice(1) });
      await compare('POST', `${NOTES}/bulk`, { operations: operations.slice(1), atomic: false });
    }
    await compare('POST', `/api/entities/${GUESS}_vault/records`, { [`${GUESS}_line`]: 'x' });
  }, 240_000);

  test('an import reports refused lines without hidden names and values', async () => {
    const lines = [...bodies.filter(({ id }) => id === undefined), { code: 'taken' }, { [GUESS]: 'x' }];
    const ndjson = lines.map((line) => JSON.stringify({ rank: 'no', ...line })).join('\n');
    await compare('POST', `${NOTES}/import`, ndjson, { 'content-type': 'application/x-ndjson' });
    for (const header of [`title,${GUESS}`, `title,nosuch`, `${GUESS}_no`, 'title,rank']) {
      const columns = header.split(',').map(() => 'x');
      await compare('POST', `${NOTES}/import`, `${header}\n${columns}`, { 'content-type': 'text/csv' });
    }
    await compare('POST', `/api/entities/${GUESS}_vault/records/import`, '{}', {
      'content-type': 'application/x-ndjson',
    });
  }, 120_000);

  test('If-Match is no oracle of a hidden row', async () => {
    for (const id of ['{hidden}', '{lacking}', crypto.randomUUID()]) {
      for (const etag of ['"1"', '"2"', '*', 'W/"1"']) {
        const headers = { 'if-match': etag };
        await compare('PATCH', `${NOTES}/${id}`, { title: 'x' }, headers);
        await compare('DELETE', `${NOTES}/${id}`, undefined, headers);
      }
    }
  }, 120_000);

  test('a rule that fails on a hidden field', async () => {
    await compare('PATCH', `${NOTES}/{shown}`, { title: 'ruled' });
    const operations = [{ op: 'update', id: '{shown}', data: { title: 'ruled' } }];
    await compare('POST', `${NOTES}/bulk`, { operations });
    await compare('POST', `${NOTES}/bulk`, { operations, atomic: false });
  });
});

describe('MCP', () => {
  test('tools answer the same, without hidden names and values', async () => {
    const calls: [string, Json][] = [
      ['list_entities', {}],
      ['get_rest_api_spec', {}],
      ['get_rest_api_spec', { detail: 'full' }],
      ['generate_api_client', {}],
      ['whoami_bot', {}],
      ['list_bots', {}],
      ['list_webhooks', {}],
      ...KEYS.map((key): [string, Json] => ['query_records', { entity_name: 'note', sort: key, fields: key }]),
      ...RELATED.map((key): [string, Json] => ['query_records', { entity_name: 'note', filters: `${key} = "x"` }]),
      ['query_records', { entity_name: 'note', search: GUESS, resolve_depth: 2 }],
      ['query_records', { entity_name: `${GUESS}_vault` }],
      ['get_record', { entity_name: 'note', record_id: '{hidden}' }],
      ['get_record', { entity_name: 'note', record_id: '{shown}', resolve: true }],
      ['update_record', { entity_name: 'note', record_id: '{hidden}', data: { title: 'x' } }],
      ['update_record', { entity_name: 'note', record_id: '{shown}', data: { [GUESS]: 'x' } }],
      ['delete_record', { entity_name: 'note', record_id: '{hidden}' }],
      ['create_record', { entity_name: 'note', data: { code: 'taken' } }],
      ['create_record', { entity_name: `${GUESS}_vault`, data: {} }],
      [
        'create_webhook',
        { entity_name: `${GUESS}_vault`, event_types: ['record.created'], url: 'https://example.com' },
      ],
    ];
    for (const kind of (worlds[0] as World).callers.keys()) {
      for (const [name, input] of calls) {
        const seen: string[] = [];
        for (const world of worlds) {
          const filled = JSON.stringify(input).replaceAll(
            /\{(\w+)\}/g,
            (whole, id: string) => world.ids[id as never] ?? whole,
          );
          const { token } = world.callers.get(kind) as { token: string };
          const headers = { authorization: `Bearer ${token}`, 'x-request-id': 'same' };
          const { status, text } = await callTool(service.url, name, JSON.parse(filled), headers);
          const shown = neutral(world, `${status} ${text}`);
          if (world.canary !== GUESS || !filled.includes(GUESS))
            expect(shown, `${kind} ${name}`).not.toContain(world.canary);
          seen.push(shown);
        }
        expect(seen[0], `${kind} ${name} ${JSON.stringify(input)}`).toBe(seen[1] as string);
      }
    }
  }, 240_000);
});

describe('live channels', () => {
  /** Changes of hidden rows (of another number in each world), of the entity that the role lacks, and of hidden fields. */
  async function change({ owner, canary, ids }: World): Promise<void> {
    for (let i = 0; i < (canary === GUESS ? 2 : 4); i++) {
      await createRecord(owner, NOTES, { title: canary, [`${canary}_flag`]: false });
      await owner.patch(`/api/entities/${canary}_vault/records/${ids.lacking}`, {
        [`${canary}_line`]: `${canary} ${i}`,
      });
    }
    await owner.patch(`${NOTES}/${ids.shown}`, { [canary]: `${canary} live` });
    const memo = await createRecord(owner, '/api/entities/memo/records', { title: 'live', [canary]: canary });
    await owner.patch(`/api/entities/memo/records/${memo.id}`, { [canary]: `${canary} again` });
    await owner.delete(`/api/entities/memo/records/${memo.id}`);
    await createRecord(owner, '/api/entities/memo/records', { title: 'the last' });
  }

  test('the stream of a platform key', async () => {
    const seen: string[] = [];
    for (const world of worlds) {
      const { token } = world.callers.get('platform key') as { token: string };
      const stream = keep(await connectEvents(service.url, world.owner.slug, token));
      await change(world);
      while (!stream.text.includes('the last')) await delay(5);
      expect(stream.text).not.toContain(world.canary);
      seen.push(
        neutral(world, stream.text)
          .replaceAll(/event: heartbeat\n.*\n.*\n\n/g, '')
          .replaceAll(/^id: \d+$/gm, ''),
      );
    }
    expect(seen[0]).toBe(seen[1] as string);
    expect(seen[0]).toContain('record.deleted');
  }, 60_000);

  test('the WebSockets of a platform key and of public keys; scopes for records open none', async () => {
    for (const kind of ['platform key', 'public key', 'public key for channels']) {
      const seen: string[] = [];
      for (const world of worlds) {
        const { token } = world.callers.get(kind) as { token: string };
        const socket = keep(await subscribeSocket(service.url, token, 'memo', 'note', 'place'));
        const refused = [];
        for (const entity of [`${GUESS}_vault`, 'nosuch'])
          refused.push(await socket.ask({ type: 'subscribe', entity }));
        expect(JSON.stringify(refused[0]).replace(`${GUESS}_vault`, 'nosuch')).toBe(JSON.stringify(refused[1]));
        await change(world);
        const messages: Json[] = [];
        do messages.push(await socket.next());
        while (!JSON.stringify(messages.at(-1)).includes('the last'));
        expect(JSON.stringify(messages)).not.toContain(world.canary);
        seen.push(neutral(world, JSON.stringify(messages)));
      }
      expect(seen[0]).toBe(seen[1] as string);
    }
    const { token } = (worlds[0] as World).callers.get('public key for records') as { token: string };
    await expect(subscribeSocket(service.url, token, 'memo')).rejects.toThrow('refused');
  }, 60_000);
});

describe('subscribing to what is hidden', () => {
  test('is refused as for an entity that does not exist, whatever else the subscription names', async () => {
    const { callers, ids } = worlds[0] as World;
    const further: Json[] = [
      { view: 'picked' },
      { view: 'nosuch' },
      { view: `${GUESS}-view`, transitions: true },
      { filters: `${GUESS}_line = "a"` },
      { filters: 'nosuch = (' },
      { fields: [`${GUESS}_line`] },
      { since: '' },
      { since: 'nonsense' },
      { since: ids.lacking },
    ];
    for (const kind of ['platform key', 'public key', 'bot']) {
      const { token } = callers.get(kind) as { token: string };
      const socket = keep(await subscribeSocket(service.url, token));
      for (const members of further) {
        const answers: Json[] = [];
        for (const entity of [`${GUESS}_vault`, 'nosuch']) {
          answers.push(await socket.ask({ type: 'subscribe', entity, ...members }));
        }
        expect(answers[0], `${kind} ${JSON.stringify(members)}`).toEqual(answers[1]);
      }
    }
  }, 60_000);
});

describe('what is left of a hidden value', () => {
  test('a hidden field `data` does not change how a body is read', async () => {
    const seen: string[] = [];
    for (const hasField of [true, false]) {
      const owner = await service.tenant();
      const own = hasField ? [{ key: 'data', type: 'json' }] : [];
      const fields = [{ key: 'title', type: 'text' }, ...own];
      expect((await owner.post('/api/entities', { name: 'note', fields })).status).toBe(201);
      const caller = await withRole(service, owner, {
        permissions: { note: [...ALL] },
        entities: { note: { fields: ['title'] } },
      });
      for (const body of [
        { data: { title: 'a' } },
        { data: { data: 1 } },
        { data: 1 },
        { data: { title: 'a' }, title: 'b' },
      ]) {
        const operations = [{ op: 'create', data: body }];
        for (const answer of [
          await caller.post(NOTES, body, { 'x-request-id': 'same' }),
          await caller.post(`${NOTES}/bulk`, { operations }, { 'x-request-id': 'same' }),
          await caller.post(`${NOTES}/bulk`, { operations, atomic: false }, { 'x-request-id': 'same' }),
        ]) {
          seen.push(answer.text.replaceAll(UUID, 'id').replaceAll(TIME, 'time'));
        }
      }
    }
    expect(seen.slice(seen.length / 2)).toEqual(seen.slice(0, seen.length / 2));
  });

  test('large hidden values take no room in the responses of others, and no refusal tells their size', async () => {
    const owner = await service.tenant();
    const large = { key: 'large', type: 'text' };
    await createEntity(owner, 'place', [{ key: 'city', type: 'text' }, large]);
    await createEntity(owner, 'note', [
      { key: 'title', type: 'text' },
      { key: 'places', type: 'relations', entity: 'place' },
      large,
    ]);
    const text = 'x'.repeat(1_000_000);
    const places: string[] = [];
    for (let i = 0; i < 40; i++) {
      places.push((await createRecord(owner, '/api/entities/place/records', { city: `c${i}`, large: text })).id);
    }
    const { id } = await createRecord(owner, NOTES, { title: 'a', places, large: text });
    const hidesLarge = { excludeFields: ['large'] };
    const caller = await withRole(service, owner, {
      permissions: { note: [...ALL], place: ['read'] },
      entities: { note: hidesLarge, place: hidesLarge },
    });
    for (const path of [
      `${NOTES}?resolve=true`,
      `${NOTES}/${id}?resolve=true`,
      '/api/entities/place/records?limit=100',
    ]) {
      const answer = await caller.get(path);
      expect(answer.status, answer.text.slice(0, 500)).toBe(200);
      expect(answer.text).toContain('"c39"');
    }
    const refused = await caller.patch(`${NOTES}/${id}`, { title: 'x'.repeat(100_000) });
    expect(refused.status).toBe(400);
    expect(refused.body.error.details[0].path).toBe('title');
    expect(refused.body.error.message.match(/\d+/g)).toEqual(['1048576']);
  }, 60_000);

  test('a replay by Idempotency-Key is for the credential that sent the first request', async () => {
    const owner = await service.tenant();
    await createEntity(owner, 'note', [{ key: 'title', type: 'text' }]);
    const other = await service.tenant();
    await createEntity(other, 'note', [{ key: 'title', type: 'text' }]);
    const key = { 'idempotency-key': 'same-key' };
    const role = { permissions: { note: [...ALL] } };
    const clients = [owner, other, await withRole(service, owner, role), await withRole(service, owner, role)];
    const ids = new Set<string>();
    for (const client of clients) {
      const answer = await client.post(NOTES, { title: 'a' }, key);
      expect([answer.status, answer.headers.get('idempotent-replayed')]).toEqual([201, null]);
      ids.add(answer.body.data.id);
    }
    expect(ids.size).toBe(clients.length);
    const again = await owner.post(NOTES, { title: 'a' }, key);
    expect(again.headers.get('idempotent-replayed')).toBe('true');
  });
});
