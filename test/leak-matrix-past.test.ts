// The past of records and the effects of writes, requested by callers whose role hides fields and rows, or has only some
// operations: histories, moments, deleted records, the feed, dry runs, upserts, imports, API documents, tickets. Two tenants
// differ only in what is hidden; the same requests get the same responses in both, headers and lengths included.
// Contract: decisions#roles, decisions#responses, feed#what-a-follower-sees, history#who-sees-what, trying#dry-runs.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { addRole, bearer, botToken, platformKey, userToken } from './support/credentials.ts';
import { callTool } from './support/mcp-calls.ts';
import { createPublicKey } from './support/people.ts';
import {
  type Answer,
  type Client,
  type Json,
  startService,
  type TestService,
  type TestTenant,
} from './support/service.ts';

const ALL = ['read', 'create', 'update', 'delete'] as const;
const NOTES = '/api/entities/note/records';
/** The name of what is hidden in the first tenant; in the second one it is as long. */
const GUESS = 'xsecret';

interface World {
  canary: string;
  owner: TestTenant;
  callers: Map<string, Client & { token: string }>;
  ids: Record<string, string>;
}

let service: TestService;
let worlds: World[];
beforeAll(async () => {
  service = await startService();
  worlds = [await build(GUESS, 2, true), await build('yhidden', 4, false)];
}, 120_000);
afterAll(async () => service.stop());

async function done(answer: Promise<Answer>): Promise<Json> {
  const { status, text, body } = await answer;
  if (status >= 300) throw new Error(text);
  return body.data;
}

/** `isIn`: whether a task that only creators know of is among their rows. */
async function build(canary: string, hiddenRows: number, isIn: boolean): Promise<World> {
  const owner = await service.tenant();
  const text = { type: 'text' };
  const flag = { key: `${canary}_flag`, type: 'boolean', default: true };
  const code = { key: 'code', ...text, unique: true };
  const define = (name: string, fields: Json[], more: Json = {}) =>
    done(owner.post('/api/entities', { name, fields, ...more }));
  await define(`${canary}_vault`, [{ key: 'line', ...text }]);
  await define('place', [{ key: 'tag', ...text, unique: true }, { key: `${canary}_zip`, ...text, unique: true }, flag]);
  await define('task', [code, { key: 'n', type: 'integer' }]);
  await define(
    'note',
    [
      { key: 'title', ...text },
      code,
      { key: 'place', type: 'relation', entity: 'place' },
      flag,
      { key: canary, ...text },
      { key: `${canary}_no`, ...text, unique: true },
      { key: `${canary}_place`, type: 'relation', entity: 'place' },
    ],
    { indexes: [{ fields: ['title', '-code'] }, { fields: [`${canary}_flag`, 'title'] }] },
  );
  const create = async (entity: string, values: Json): Promise<string> =>
    (await done(owner.post(`/api/entities/${entity}/records`, values))).id;
  const hidden = { [flag.key]: false };
  const ids: Record<string, string> = {
    lacking: await create(`${canary}_vault`, { line: canary }),
    target: await create('place', { tag: 'rome', [`${canary}_zip`]: canary }),
    hiddenTarget: await create('place', { tag: 'hid', ...hidden }),
    task: await create('task', { code: 'side', n: isIn ? 1 : 100 }),
  };
  const change = (id: string, values: Json) => done(owner.patch(`${NOTES}/${id}`, values));
  for (const name of ['shown', 'back', 'out', 'deleted']) {
    const values = { title: name, code: name, place: ids.target, [canary]: canary, [`${canary}_no`]: canary + name };
    ids[name] = await create('note', { ...values, [`${canary}_place`]: ids.hiddenTarget });
  }
  for (let i = 0; i < hiddenRows; i++) {
    ids.hidden = await create('note', { title: canary, code: i === 0 ? 'taken' : `${canary}${i}`, ...hidden });
  }
  await change(ids.shown as string, { title: 'first', [canary]: `${canary} 2` });
  await change(ids.shown as string, { [canary]: `${canary} 3` });
  for (const [name, comesBack] of [
    ['back', true],
    ['out', false],
  ] as const) {
    await change(ids[name] as string, { ...hidden, title: canary });
    await change(ids[name] as string, { title: `${canary} 2` });
    if (comesBack) await change(ids[name] as string, { [flag.key]: true, title: 'again' });
    else await done(owner.delete(`${NOTES}/${ids[name]}`));
  }
  await done(owner.delete(`${NOTES}/${ids.deleted}`));
  ids.gone = await create('note', { title: canary, ...hidden });
  for (let i = 0; i < hiddenRows; i++) await change(ids.gone, { title: `${canary} ${i}` });
  await done(owner.delete(`${NOTES}/${ids.gone}`));
  const filterDsl = { validate: [{ condition: `${canary}_flag = true` }] };
  await done(owner.post('/api/views', { entitySlug: 'note', slug: 'picked', name: 'Picked', filterDsl }));
  return { canary, owner, ids, callers: await callersOf(owner, canary) };
}

async function callersOf(owner: TestTenant, canary: string): Promise<World['callers']> {
  const rowFilter = `${canary}_flag = true`;
  const own = [canary, `${canary}_no`, `${canary}_place`, `${canary}_flag`];
  const entities = {
    note: { excludeFields: own, rowFilter },
    place: { fields: ['tag'], rowFilter },
    task: { rowFilter: 'n < 10' },
  };
  const tokens: [string, string][] = [];
  const place = ['read' as const];
  for (const operations of [[...ALL], ['create'], ['update'], ['delete'], ['read', 'create']] as const) {
    const permissions = { note: [...operations], place };
    const { name } = await addRole(service, owner, { permissions, entities });
    const what = operations.join('+');
    tokens.push([`user ${what}`, await userToken(service, owner, name)]);
    tokens.push([`platform key ${what}`, await platformKey(service, owner, name, permissions)]);
  }
  const viewing = { permissions: { 'view:picked': ['read' as const] }, entities };
  const viewer = await addRole(service, owner, viewing);
  tokens.push(['user of a view', await userToken(service, owner, viewer.name)]);
  const creator = await addRole(service, owner, { permissions: { task: ['create'] }, entities });
  tokens.push(['creator of tasks', await userToken(service, owner, creator.name)]);
  tokens.push(['bot', await botToken(service, owner, {})]);
  const reader = await addRole(service, owner, { permissions: { note: ['read'], place }, entities });
  const rates = { roleId: reader.id, rateLimitPerMin: 100_000, rateLimitPerDay: 100_000 };
  for (const scopes of [['records:read', 'channels:read'], ['records:read']]) {
    tokens.push([`public key ${scopes}`, (await createPublicKey(owner, { ...rates, scopes })).key]);
  }
  return new Map(tokens.map(([kind, token]) => [kind, { ...bearer(service, token), token }]));
}

const UUID = /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g;
const TIME = /\d{4}-\d\d-\d\dT[\d:.]+Z/g;
/** Numbers whose digits depend on how many there were before. */
const NUMBERED = /(role|bot-|api)\d+/g;

/** The text without values that differ between any two tenants; only the length of cursors and tickets stays. */
function neutral({ owner, ids }: World, text: string): string {
  const labels = new Map(Object.entries(ids).map(([name, id]) => [id, name]));
  return (
    text
      .replaceAll(owner.slug, 'slug')
      .replaceAll(UUID, (id) => labels.get(id) ?? 'id')
      .replaceAll(TIME, 'time')
      .replaceAll(NUMBERED, '$1')
      // The example of a unique field is made from the field's id.
      .replaceAll(/(\\?"(?:code|tag)\\*":\\*"(?:code|tag) )[0-9a-z]{4,7}/g, '$1mark')
      .replaceAll(
        /(\\?"(?:nextCursor|cursor|ticket)\\?":\\?")([^"\\]*)/g,
        (_, before, value) => `${before}${marked(value)}`,
      )
  );
}

const marked = (value: string): string => `«${value.length}»`;
const LENGTHS = /«(\d+)»/g;
/** Cursors have numbers of events and transactions in them, of which the second tenant's may have a digit more. */
const DIGITS = 6;

/** The same texts, with cursors and tickets of about the same length. */
function expectSame([one = '', other = '']: string[], what: string): void {
  const lengths = [one, other].map((text) => [...text.matchAll(LENGTHS)].map(([, length]) => Number(length)));
  expect(one.replaceAll(LENGTHS, ''), what).toBe(other.replaceAll(LENGTHS, ''));
  for (const [i, length] of lengths[0]?.entries() ?? []) {
    expect(Math.abs(length - (lengths[1]?.[i] ?? 0)), `${what}: ${one}`).toBeLessThanOrEqual(DIGITS);
  }
}

/** The whole text is compared, so that the header with its length would say nothing more. */
function shownOf(world: World, { status, headers, text }: Answer): string {
  const kept = [...headers].filter(([name]) => !/^(date|content-length|(x-)?ratelimit.*)$/.test(name));
  const lengths = kept.map(([name, value]) => [name, name === 'changes-cursor' ? marked(value) : value]);
  return neutral(world, `${status} ${JSON.stringify(lengths)} ${text}`);
}

const filledFor = ({ ids }: World, text: string): string =>
  text.replaceAll(/\{(\w+)\}/g, (whole, name: string) => ids[name] ?? whole);

/** Sends a request to both tenants as each caller: the answers are equal, and without the hidden name. */
async function compare(method: string, path: string, body?: Json, headers: Record<string, string> = {}) {
  const sent = `${method} ${path} ${JSON.stringify(body)}`;
  for (const kind of worlds[0]?.callers.keys() ?? []) {
    const seen: string[] = [];
    for (const world of worlds) {
      const client = world.callers.get(kind) as Client;
      const text = body === undefined ? undefined : filledFor(world, JSON.stringify(body));
      const used = { 'x-request-id': 'same', 'accept-encoding': 'identity', ...headers };
      const answer = await client.request(method, encoded(filledFor(world, path)), text && JSON.parse(text), used);
      expect(answer.status, `${kind}: ${sent}`).toBeLessThan(500);
      const shown = shownOf(world, answer);
      if (world.canary !== GUESS || !sent.includes(GUESS))
        expect(shown, `${kind}: ${sent}`).not.toContain(world.canary);
      seen.push(shown);
    }
    expectSame(seen, `${kind}: ${sent}`);
  }
}

const encoded = (path: string): string => path.replaceAll(' ', '%20').replaceAll('"', '%22');
const IDS = ['shown', 'back', 'out', 'deleted', 'hidden', 'gone', 'lacking', 'nosuch'].map((name) =>
  name === 'nosuch' ? crypto.randomUUID() : `{${name}}`,
);

test('the past of records', async () => {
  for (const id of IDS) {
    for (const query of ['', '?limit=1', '?cursor=Mw']) await compare('GET', `${NOTES}/${id}/history${query}`);
    await compare('GET', `${NOTES}/${id}?asOf=2099-01-01T00:00:00Z`);
  }
  const queries = ['sort=title', `sort=${GUESS}`, 'limit=1&cursor=', `filters=${GUESS}_flag = true`, 'resolve=true'];
  for (const query of ['', ...queries, 'filters=title contains "e"']) await compare('GET', `${NOTES}/deleted?${query}`);
}, 240_000);

test('the feed', async () => {
  const conditions = ['title contains "e"', `${GUESS}_flag = true`, `${GUESS}_place.tag = "a"`, 'place.tag = "a"'];
  for (const query of [
    '',
    '&limit=3',
    '&transitions=true',
    '&view=picked&transitions=true',
    `&view=${GUESS}`,
    `&entities=${GUESS}_vault`,
    `&entities=${GUESS}_vault&filters=line = "a"`,
    ...conditions.map((filters) => `&entities=note&filters=${filters}`),
  ]) {
    await compare('GET', `/api/changes?since=earliest${query}`);
  }
}, 240_000);

test('the effects that a write would have', async () => {
  const bodies: Json[] = [
    { title: 'x', code: 'new' },
    { code: 'taken' },
    { code: 'shown' },
    { [GUESS]: 'a' },
    { [`${GUESS}_no`]: `${GUESS}shown` },
    { place: '{hiddenTarget}' },
    { place: '{lacking}', [`${GUESS}_place`]: '{target}' },
  ];
  for (const body of bodies) {
    await compare('POST', `${NOTES}?dryRun=true`, body);
    for (const by of ['code', `${GUESS}_no`]) {
      await compare('POST', `${NOTES}?dryRun=true&upsert=${by}`, { code: 'taken', ...body }, { 'if-match': '"1"' });
      await compare('POST', `${NOTES}?dryRun=true&upsert=${by}`, { code: 'taken', ...body });
    }
    for (const id of ['{shown}', '{hidden}', '{gone}']) await compare('PATCH', `${NOTES}/${id}?dryRun=true`, body);
    const operations = [
      { op: 'update', id: '{hidden}', data: body, etag: '"1"' },
      { op: 'upsert', by: 'code', data: { code: 'taken', ...body } },
      { op: 'upsert', by: `${GUESS}_no`, data: body },
      { op: 'delete', id: '{hidden}', etag: '"9"' },
    ];
    for (const atomic of [true, false]) await compare('POST', `${NOTES}/bulk?dryRun=true`, { atomic, operations });
  }
  for (const id of IDS) {
    await compare('DELETE', `${NOTES}/${id}?dryRun=true`);
    for (const version of [1, 3]) await compare('POST', `${NOTES}/${id}/restore?dryRun=true`, { version });
  }
}, 240_000);

test('imports that are tried', async () => {
  const lines: Json[][] = [
    [{ code: 'taken' }, { code: 'shown' }, { code: 'new' }],
    [{ 'place.tag': 'rome' }, { 'place.tag': 'hid' }, { 'place.tag': 'none' }],
    [{ [`place.${GUESS}_zip`]: GUESS }, { [`${GUESS}_place.tag`]: 'rome' }, { [GUESS]: 'a' }],
    ['hidden', 'gone', 'deleted', 'lacking'].map((name) => ({ id: `{${name}}`, title: 'x' })),
  ];
  for (const body of lines) {
    for (const query of ['', '&upsert=code', '&ids=keep', '&ids=keep&upsert=id', `&upsert=${GUESS}_no`]) {
      await compare('POST', `${NOTES}/import?dryRun=true${query}`, body);
    }
  }
}, 240_000);

test('one that only creates cannot tell on which side of its row filter a record is', async () => {
  const path = '/api/entities/task/records';
  for (const data of [{ code: 'side', n: 2 }, { code: 'side', n: 100 }, { code: 'side' }, { code: 'side', n: 'x' }]) {
    for (const query of ['dryRun=true', 'dryRun=true&upsert=code']) {
      await compare('POST', `${path}?${query}`, data);
      await compare('POST', `${path}?${query}`, data, { 'if-match': '"1"' });
    }
    for (const atomic of [true, false]) {
      await compare('POST', `${path}/bulk?dryRun=true`, { atomic, operations: [{ op: 'upsert', by: 'code', data }] });
    }
    await compare('POST', `${path}/import?dryRun=true&upsert=code`, [data]);
    await compare('POST', `${path}/import?dryRun=true&ids=keep&upsert=id`, [{ ...data, id: '{task}' }]);
  }
  for (const [method, body] of [['PATCH', {}], ['DELETE'], ['GET']] as const) {
    await compare(method, `${path}/{task}${method === 'GET' ? '' : '?dryRun=true'}`, body);
  }
}, 120_000);

test('definitions, API documents and tickets', async () => {
  for (const path of ['entities', 'entities/note', 'entities/note/fields', `entities/${GUESS}_vault`, 'views']) {
    await compare('GET', `/api/${path}`);
  }
  for (const query of ['', '?entity=note', `?entity=${GUESS}_vault`]) await compare('GET', `/swagger/json${query}`);
  for (const body of [
    { entities: [`${GUESS}_vault`], filters: 'line = "a"', since: '' },
    { entities: ['note'], filters: `${GUESS} = "a"`, since: '' },
    { view: `${GUESS}-view`, since: '' },
    { view: 'picked', transitions: true },
  ]) {
    for (const world of worlds) world.ids.slug = world.owner.slug;
    await compare('POST', '/api/v1/tenants/{slug}/events/tickets', body);
  }
}, 120_000);

test('the tools for changes and history', async () => {
  const calls: [string, Json][] = [
    ['get_changes', { since: 'earliest' }],
    ['get_changes', { since: 'earliest', entities: `${GUESS}_vault` }],
    ...IDS.map((id): [string, Json] => ['get_history', { entity_name: 'note', record_id: id }]),
  ];
  for (const [name, input] of calls) {
    for (const kind of worlds[0]?.callers.keys() ?? []) {
      const seen: string[] = [];
      for (const world of worlds) {
        const { token } = world.callers.get(kind) as { token: string };
        const headers = { authorization: `Bearer ${token}`, 'x-request-id': 'same' };
        const filled = JSON.parse(filledFor(world, JSON.stringify(input)));
        const { status, text } = await callTool(service.url, name, filled, headers);
        seen.push(neutral(world, `${status} ${text}`));
      }
      expectSame(seen, `${kind}: ${name} ${JSON.stringify(input)}`);
    }
  }
}, 120_000);
