// Accents in full-text search: the setting `searchFolding` of an entity, the order of its matches, and the rebuild of the
// records' terms after a change of it.
// Contract: decisions#search.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { rebuildSearchOnce } from '../src/entities/search-rebuild.ts';
import { foldAccents } from '../src/expression/accent-folding.ts';
import { sql } from '../src/runtime/sql.ts';
import { addUser, PASSWORD } from './support/people.ts';
import { type Client, type Json, startService, type TestService, type TestTenant } from './support/service.ts';

let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService();
  tenant = await service.tenant();
});
afterAll(async () => service.stop());

let entities = 0;

/** A new entity of names and notes, with these names. */
async function entity(names: readonly string[], settings: Json = {}): Promise<string> {
  const name = `people_${++entities}`;
  const fields = ['title', 'note'].map((key) => ({ key, type: 'text' }));
  expect((await tenant.post('/api/entities', { name, fields, ...settings })).status).toBe(201);
  for (const item of names) await tenant.post(`/api/entities/${name}/records`, { title: item });
  return name;
}

async function found(name: string, query: Record<string, string>, client: Client = tenant): Promise<string[]> {
  const { body } = await client.get(`/api/entities/${name}/records?${new URLSearchParams(query)}`);
  return body.data.items.map((item: Json) => item.title);
}

async function rebuilt(): Promise<void> {
  while ((await rebuildSearchOnce(service.app)) !== null);
}

test('a word without its accents', () => {
  const words: Record<string, string> = {
    amélie: 'amelie',
    'ame\u0301lie': 'amelie',
    łódź: 'lodz',
    straße: 'strasse',
    smørrebrød: 'smorrebrod',
    æther: 'aether',
    þór: 'thor',
    việt: 'viet',
    ελλάδα: 'ελλαδα',
    ёлка: 'елка',
    한국: '한국',
    が: 'が',
    हिन्दी: 'हिन्दी',
    שָׁלוֹם: 'שלום',
    كِتَاب: 'كتاب',
    plain: 'plain',
  };
  for (const [word, folded] of Object.entries(words)) expect([word, foldAccents(word)]).toEqual([word, folded]);
});

describe('an entity with searchFolding', () => {
  test('is every new one that does not say otherwise, and its definition says so', async () => {
    for (const [settings, expected] of [
      [{}, true],
      [{ searchFolding: true }, true],
      [{ searchFolding: false }, false],
    ] as const) {
      const name = await entity([], settings);
      expect((await tenant.get(`/api/entities/${name}`)).body.data.searchFolding).toBe(expected);
    }
    const name = await entity(['Amélie'], { searchFolding: false });
    expect(await found(name, { search: 'amelie' })).toEqual([]);
    expect(await found(name, { search: 'amélie' })).toEqual(['Amélie']);
    expect((await tenant.patch(`/api/entities/${name}`, { searchFolding: 'yes' })).status).toBe(400);
  });

  test('finds a word with and without its accents, exact matches first and then the newest, unless sorted', async () => {
    const name = await entity(['Amelie', 'Amélie', 'Amelie Poulain', 'AMÉLIE', 'Amy', 'Âmelié']);
    expect(await found(name, { search: 'amelie' })).toEqual(['Amelie Poulain', 'Amelie', 'Âmelié', 'AMÉLIE', 'Amélie']);
    expect(await found(name, { search: 'amé' })).toEqual(['AMÉLIE', 'Amélie', 'Âmelié', 'Amelie Poulain', 'Amelie']);
    expect(await found(name, { search: 'amelie poulaín' })).toEqual(['Amelie Poulain']);
    expect(await found(name, { search: 'amelie', sort: 'id' })).toEqual([
      'Amelie',
      'Amélie',
      'Amelie Poulain',
      'AMÉLIE',
      'Âmelié',
    ]);
    const { body } = await tenant.get(`/api/entities/${name}/records/aggregate?search=amelie`);
    expect(body.data.items).toEqual([{ count: 5 }]);
    const csv = await tenant.get(`/api/entities/${name}/records/export?format=csv&search=amelie`);
    expect(csv.text.trim().split('\n')).toHaveLength(6);
    const slug = name.replace('_', '-');
    await tenant.post('/api/views', {
      slug,
      entitySlug: name,
      name,
      filterDsl: { validate: [{ condition: 'title != "Amelie"' }] },
    });
    const view = await tenant.get(`/api/views/${slug}/records?search=amelie`);
    expect(view.body.data.items.map((item: Json) => item.title)[0]).toBe('Amelie Poulain');
    expect(view.body.data.total).toBe(4);
  });

  test('is paged by number and by cursor without gaps and twins, also when exact matches are many', async () => {
    const names = Array.from({ length: 60 }, (_, i) => (i % 10 === 3 ? `José ${i}` : `Jose ${i}`));
    const name = await entity(names);
    for (const search of ['jose', 'josé']) {
      const whole = await found(name, { search, limit: '100' });
      expect(whole).toHaveLength(60);
      for (const limit of [1, 7, 50]) {
        const pages: string[] = [];
        for (let page = 1; pages.length < 60; page++) {
          pages.push(...(await found(name, { search, limit: String(limit), page: String(page) })));
        }
        expect(pages).toEqual(whole);
        const following: string[] = [];
        for (let cursor: string | null = ''; cursor !== null; ) {
          const { body } = await tenant.get(
            `/api/entities/${name}/records?search=${search}&limit=${limit}&cursor=${cursor}`,
          );
          following.push(...body.data.items.map((item: Json) => item.title));
          cursor = body.data.nextCursor;
        }
        expect(following).toEqual(whole);
      }
    }
  });

  test('neither matches nor orders by fields that the caller may not read', async () => {
    const name = await entity([]);
    const path = `/api/entities/${name}/records`;
    await tenant.post(path, { title: 'Renée first', note: 'renee' });
    await tenant.post(path, { title: 'Renée second' });
    await tenant.post(path, { title: 'third', note: 'Renée' });
    expect(await found(name, { search: 'renee' })).toEqual(['Renée first', 'third', 'Renée second']);
    const role = `reader_${entities}`;
    await tenant.post('/api/roles', {
      name: role,
      permissions: { [name]: ['read'] },
      entities: { [name]: { fields: ['title'] } },
    });
    const { email } = await addUser(tenant, { role });
    const login = await service.anonymous.post(
      '/api/auth/tenant/login',
      { email, password: PASSWORD },
      { 'x-tenant-id': tenant.slug },
    );
    const reader = service.anonymous.with({ authorization: `Bearer ${login.body.data.token}` });
    expect(await found(name, { search: 'renee' }, reader)).toEqual(['Renée second', 'Renée first']);
    expect(await found(name, { search: 'renée' }, reader)).toEqual(['Renée second', 'Renée first']);
  });

  test('stores and searches words of very many marks without delay', async () => {
    const name = await entity([]);
    const zalgo = `a${'\u0301\u0323\u05b0'.repeat(26_667)}b`;
    const texts = [zalgo, 'ﷺ'.repeat(20_000), 'Ǘ'.repeat(80_000), 'é '.repeat(40_000), 'ß'.repeat(80_000)];
    for (const note of texts)
      expect((await tenant.post(`/api/entities/${name}/records`, { title: 'x', note })).status).toBe(201);
    expect(await found(name, { search: 'a' })).toHaveLength(1);
    expect(await found(name, { search: 'uuu' })).toHaveLength(1);
    expect(await found(name, { search: zalgo.slice(0, 600) })).toHaveLength(1);
    expect(await found(name, { search: 's'.repeat(300) })).toHaveLength(1);
  });
});

describe('a change of searchFolding', () => {
  const ACCENTED = Array.from({ length: 30 }, (_, i) => `Zoë ${i}`);

  test('rebuilds the terms in the background: until then matches are exact, ETags and events stay, writers continue', async () => {
    const name = await entity([...ACCENTED, 'Zoe plain'], { searchFolding: false });
    const path = `/api/entities/${name}/records`;
    const etags = async (): Promise<string[]> =>
      (await tenant.get(`${path}?with=etags&limit=100&sort=id`)).body.data.etags;
    const before = await etags();
    expect((await tenant.patch(`/api/entities/${name}`, { searchFolding: true })).body.data.searchFolding).toBe(true);
    expect(await found(name, { search: 'zoe' })).toEqual(['Zoe plain']);
    let isDone = false;
    const rebuilding = rebuilt().then(() => {
      isDone = true;
    });
    const written: string[] = [];
    for (let i = 0; !isDone; i++) {
      const { body } = await tenant.post(path, { title: `Zoé ${i}` });
      written.push(body.data.id);
      expect((await tenant.patch(`${path}/${body.data.id}`, { note: `n${i}` })).status).toBe(200);
    }
    await rebuilding;
    const total = async (search: string) => (await tenant.get(`${path}?search=${search}&limit=1`)).body.data.total;
    expect(await total('zoe')).toBe(31 + written.length);
    expect(await total('zoë')).toBe(31 + written.length);
    expect((await found(name, { search: 'zoe' }))[0]).toBe('Zoe plain');
    expect((await etags()).slice(0, 31)).toEqual(before);
    await tenant.patch(`/api/entities/${name}`, { searchFolding: false });
    expect(await total('zoe')).toBe(1);
    await rebuilt();
    expect([await total('zoe'), await total('zoë')]).toEqual([1, 30]);
    const left = await service.app.db.first(
      sql`select from platform.search_rebuilds where tenant_id = ${tenant.id}::uuid`,
    );
    expect(left).toBeUndefined();
  });

  test('is rebuilt in turn by tenant, however many entities another one has', async () => {
    const other = await service.tenant();
    const name = await entity(['Amélie'], { searchFolding: false });
    const many = ['a', 'b', 'c'].map((letter) => `many_${letter}`);
    for (const one of many) await other.post('/api/entities', { name: one, fields: [], searchFolding: false });
    for (const one of many) await other.patch(`/api/entities/${one}`, { searchFolding: true });
    await tenant.patch(`/api/entities/${name}`, { searchFolding: true });
    const first = await rebuildSearchOnce(service.app);
    const second = await rebuildSearchOnce(service.app, undefined, first ?? undefined);
    expect(new Set([first, second])).toEqual(new Set([tenant.id, other.id]));
    await rebuilt();
  });

  test('that is changed again, or whose entity is deleted, leaves nothing to do', async () => {
    const name = await entity(ACCENTED, { searchFolding: false });
    for (const searchFolding of [true, false, true]) await tenant.patch(`/api/entities/${name}`, { searchFolding });
    const gone = await entity(ACCENTED, { searchFolding: false });
    await tenant.patch(`/api/entities/${gone}`, { searchFolding: true });
    await tenant.delete(`/api/entities/${gone}?confirm=${gone}`);
    await rebuilt();
    expect(await found(name, { search: 'zoe', limit: '100' })).toHaveLength(30);
  });
});
