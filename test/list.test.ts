// Lists of records: pages, cursors, sorting, filters and search.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { fields, newEntity } from './support/entities.ts';
import { type Json, startService, type TestService, type TestTenant } from './support/service.ts';

let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService();
  tenant = await service.tenant();
});
afterAll(async () => service.stop());

const entity = async (definitions: object[], records: object[] = []): Promise<string> =>
  (await newEntity(tenant, definitions, records)).path;

async function list(path: string, query: Record<string, string> = {}): Promise<Json> {
  const answer = await tenant.get(`${path}?${new URLSearchParams(query)}`);
  if (answer.status !== 200) throw new Error(answer.text);
  return answer.body.data;
}

async function values(path: string, key: string, query: Record<string, string>): Promise<unknown[]> {
  return (await list(path, query)).items.map((item: Json) => item[key]);
}

describe('pages', () => {
  test('a list returns items, total, page, limit and totalPages, newest first, 20 per page', async () => {
    const path = await entity(
      [{ key: 'n', type: 'integer' }],
      Array.from({ length: 25 }, (_, n) => ({ n })),
    );
    const first = await list(path);
    expect(first).toMatchObject({ total: 25, page: 1, limit: 20, totalPages: 2 });
    expect(Object.keys(first).sort()).toEqual(['items', 'limit', 'page', 'total', 'totalPages']);
    expect(first.items.map(({ n }: Json) => n)).toEqual(Array.from({ length: 20 }, (_, i) => 24 - i));
    expect(await values(path, 'n', { page: '2' })).toEqual([4, 3, 2, 1, 0]);
    expect(await list(path, { page: '3' })).toMatchObject({ items: [], total: 25, page: 3, totalPages: 2 });
    expect(await list(path, { page: '1000000000', limit: '100' })).toMatchObject({
      items: [],
      total: 25,
      totalPages: 1,
    });
    expect(await list(path, { limit: '100', page: '1' })).toMatchObject({ total: 25, totalPages: 1 });
    const empty = await entity([{ key: 'n', type: 'integer' }]);
    expect(await list(empty)).toEqual({ items: [], total: 0, page: 1, limit: 20, totalPages: 0 });
  });

  test('out-of-range and malformed list parameters are a 400 that names them', async () => {
    const path = await entity([
      { key: 'n', type: 'integer' },
      { key: 'j', type: 'json' },
    ]);
    for (const [name, bad] of Object.entries({
      page: ['0', '-1', '1.5', 'x', '', '1e15', '1000000000000000', '1000000001', 'NaN', ' 1', '0x1', '１'],
      limit: ['0', '101', '-1', '1e9', 'all', ''],
      resolve_depth: ['0', '3', '-1', 'x', ''],
      resolve: ['yes', '1', ''],
      order: ['sideways', '', 'ASC '],
      count: ['all', ''],
      sort: [
        'nothing',
        'n,nothing',
        'n;drop',
        'j',
        'data->>f1',
        ',',
        'n,,',
        '--n',
        'n,n,n,n,n,n',
        '__proto__',
        'constructor',
      ],
      fields: ['nothing', 'n,nothing', '__proto__', 'n;'],
      filters: ['nothing = 1', 'n', 'n =', 'n = x', 'n = 1 AND', '(n = 1', 'n ~ 1', 'n = 1; select 1'],
      cursor: ['x', 'e30', 'W10', Buffer.from('["",[],"x"]').toString('base64url')],
      'filter.nothing': ['1'],
      'filter.n': ['x', ''],
      'filter.__proto__': ['x'],
      'filter.constructor': ['x'],
      'filter.': ['x'],
      search: ['x'.repeat(1_001)],
    })) {
      for (const value of bad) {
        const answer = await tenant.get(`${path}?${new URLSearchParams({ [name]: value })}`);
        expect([name, value, answer.status, answer.body.error?.code]).toEqual([name, value, 400, 'VALIDATION_ERROR']);
      }
    }
    const several = await tenant.get(`${path}?page=0&limit=101&order=up&resolve_depth=3`);
    expect(several.body.error.details.map((detail: Json) => detail.path).sort()).toEqual([
      'limit',
      'order',
      'page',
      'resolve_depth',
    ]);
  });

  test('count=none omits the total', async () => {
    const path = await entity([{ key: 'n', type: 'integer' }], [{ n: 1 }, { n: 2 }]);
    expect(await list(path, { count: 'none' })).toMatchObject({ total: null, totalPages: null, page: 1, limit: 20 });
    expect(await list(path, { count: 'exact' })).toMatchObject({ total: 2, totalPages: 1 });
  });

  test('fields limits the response to these fields and the system fields', async () => {
    const path = await entity(
      [
        { key: 'a', type: 'text' },
        { key: 'b', type: 'text' },
        { key: 'c', type: 'text' },
      ],
      [{ a: 'x', b: 'y' }],
    );
    const [record] = (await list(path, { fields: 'a, c' })).items;
    expect(Object.keys(record).sort()).toEqual([
      'a',
      'c',
      'createdAt',
      'createdBy',
      'entityId',
      'id',
      'updatedAt',
      'updatedBy',
    ]);
    const single = await tenant.get(`${path}/${record.id}?fields=b`);
    expect(single.body.data).toMatchObject({ b: 'y' });
    expect(single.body.data.a).toBeUndefined();
    expect(Object.keys((await list(path, { fields: 'id' })).items[0])).toHaveLength(6);
    expect((await tenant.get(`${path}/${record.id}?fields=nothing`)).status).toBe(400);
  });
});

const TEXTS = ['b', 'a', 'B', 'é', 'Z', '😀', '\uffff', '', 'aa', 'a b', '10', '9', null, null];

describe('sort', () => {
  test('text sorts in Unicode code point order, and records without a value come last in either direction', async () => {
    const path = await entity(
      [{ key: 't', type: 'text' }],
      TEXTS.map((t) => (t === null ? {} : { t })),
    );
    const points = (text: string) => [...text].map((c) => (c.codePointAt(0) ?? 0).toString(16).padStart(6, '0')).join();
    const present = TEXTS.filter((t) => t !== null).sort((a, b) => (points(a) < points(b) ? -1 : 1));
    expect(await values(path, 't', { sort: 't' })).toEqual([...present, null, null]);
    expect(await values(path, 't', { sort: 't', order: 'desc' })).toEqual([...present.toReversed(), null, null]);
    expect(await values(path, 't', { sort: '-t' })).toEqual([...present.toReversed(), null, null]);
  });

  test('each type sorts in its own order, indexed or not', async () => {
    const columns: [type: string, ordered: unknown[], rules?: object][] = [
      ['integer', [-10, -9, 0, 2, 10]],
      ['number', [-1.5, 0, 0.25, 2, 10]],
      ['decimal', ['-2', '-1.5', '0', '9', '10.25']],
      ['boolean', [false, true]],
      ['date', ['0999-01-01', '2024-01-31', '2024-02-01']],
      ['datetime', ['2023-12-31T23:00:00.000Z', '2024-01-01T00:00:00.000Z', '2024-01-01T00:00:00.001Z']],
      ['select', ['a', 'b', 'z'], { options: ['z', 'a', 'b'] }],
    ];
    for (const [type, ordered, rules] of columns) {
      for (const indexed of [false, true]) {
        const shuffled = [...ordered.slice(1), ordered[0], null];
        const path = await entity(
          [{ key: 'v', type, indexed, ...rules }],
          shuffled.map((v) => ({ v })),
        );
        expect([type, await values(path, 'v', { sort: 'v' })]).toEqual([type, [...ordered, null]]);
        expect([type, await values(path, 'v', { sort: '-v' })]).toEqual([type, [...ordered.toReversed(), null]]);
      }
    }
  });

  test('each sort key may have its own sign, and `order` applies to keys without one', async () => {
    const path = await entity(
      [
        { key: 'a', type: 'integer' },
        { key: 'b', type: 'integer' },
      ],
      [
        [1, 1],
        [1, 2],
        [2, 1],
        [2, 2],
        [1, null],
        [null, 1],
      ].map(([a, b]) => ({ a, b })),
    );
    const pairs = async (query: Record<string, string>) =>
      (await list(path, query)).items.map(({ a, b }: Json) => [a, b]);
    expect(await pairs({ sort: 'a,-b' })).toEqual([
      [1, 2],
      [1, 1],
      [1, null],
      [2, 2],
      [2, 1],
      [null, 1],
    ]);
    expect(await pairs({ sort: '-a,b' })).toEqual([
      [2, 1],
      [2, 2],
      [1, 1],
      [1, 2],
      [1, null],
      [null, 1],
    ]);
    expect(await pairs({ sort: 'a,+b', order: 'desc' })).toEqual([
      [2, 1],
      [2, 2],
      [1, 1],
      [1, 2],
      [1, null],
      [null, 1],
    ]);
  });

  test('system fields can be sorted by', async () => {
    const path = await entity([{ key: 'n', type: 'integer' }], [{ n: 1 }, { n: 2 }, { n: 3 }]);
    const oldest = (await list(path, { sort: 'id' })).items;
    await tenant.patch(`${path}/${oldest[0].id}`, { n: 10 });
    expect(await values(path, 'n', { sort: 'createdAt,id' })).toEqual([10, 2, 3]);
    expect(await values(path, 'n', { sort: '-updatedAt', limit: '1' })).toEqual([10]);
    expect(await values(path, 'n', { sort: 'createdBy,id' })).toEqual([10, 2, 3]);
    expect(await values(path, 'n', { sort: '-id' })).toEqual([3, 2, 10]);
  });

  for (const indexed of [false, true]) {
    test(`ties are sorted by id, so that pages never overlap, by number and by cursor, ${indexed ? 'with' : 'without'} an index`, async () => {
      const path = await entity(
        [
          { key: 'k', type: 'integer', indexed },
          { key: 't', type: 'text', indexed },
        ],
        Array.from({ length: 41 }, (_, i) => ({ k: i % 5 === 4 ? null : i % 5, t: i % 3 === 0 ? null : `t${i % 3}` })),
      );
      for (const sort of ['k', '-k', 'k,-t', '-k,t', 't', '-t,-k', '', 'id', '-id', '-createdAt']) {
        const whole = (await list(path, { sort, limit: '100' })).items.map(({ id }: Json) => id);
        expect(new Set(whole).size).toBe(41);
        const numbered: string[] = [];
        for (let page = 1; page <= 6; page++) {
          numbered.push(...((await values(path, 'id', { sort, limit: '7', page: String(page) })) as string[]));
        }
        expect([sort, numbered]).toEqual([sort, whole]);
        const followed: string[] = [];
        let cursor: string | null = '';
        while (cursor !== null) {
          const page: Json = await list(path, { sort, limit: '7', cursor });
          expect(page.total).toBe(41);
          followed.push(...page.items.map(({ id }: Json) => id));
          cursor = page.nextCursor;
        }
        expect([sort, followed]).toEqual([sort, whole]);
      }
    });
  }
});

describe('cursor', () => {
  test('records created while paging cause neither repeated nor missing records', async () => {
    const path = await entity(
      [{ key: 'k', type: 'integer' }],
      Array.from({ length: 30 }, (_, k) => ({ k })),
    );
    for (const sort of ['', 'k', '-k']) {
      const before = new Set((await list(path, { limit: '100', sort })).items.map(({ id }: Json) => id));
      const seen: string[] = [];
      for (let cursor: string | null = ''; cursor !== null; ) {
        const page: Json = await list(path, { limit: '4', sort, cursor });
        seen.push(...page.items.map(({ id }: Json) => id));
        cursor = page.nextCursor;
        if (cursor !== null) await tenant.post(path, { k: seen.length % 30 });
      }
      expect(new Set(seen).size).toBe(seen.length);
      expect(before.difference(new Set(seen)).size).toBe(0);
    }
  });

  test('a list by texts of any length is read by cursor, which is short enough for a URL', async () => {
    const long = ['😀'.repeat(128), '\u0001'.repeat(300), 'x'.repeat(20_000)];
    const titles = long.flatMap((start) => ['', 'a', 'b', 'b', 'c'].map((end) => `${start}${end}`));
    const rows = [...titles.map((title, n) => ({ title, n })), { n: 15 }];
    const path = await entity([...fields('title text', 'n integer')], rows);
    for (const sort of ['title', '-title', '-title,n']) {
      const all = (await list(path, { sort, limit: '100' })).items.map(({ id }: Json) => id);
      const seen: string[] = [];
      for (let cursor: string | null = ''; cursor !== null; ) {
        const page: Json = await list(path, { sort, limit: '1', cursor });
        seen.push(...page.items.map(({ id }: Json) => id));
        cursor = page.nextCursor;
        expect(cursor?.length ?? 0).toBeLessThanOrEqual(8_192);
      }
      expect(seen).toEqual(all);
    }
  });

  test('after a record whose long text has changed, a list repeats texts with the same beginning and skips nothing', async () => {
    const titles = ['a', 'b', 'c', 'd'].map((end) => 'x'.repeat(20_000) + end);
    const path = await entity(
      fields('title text'),
      [...titles, 'w', 'y'].map((title) => ({ title })),
    );
    for (const [sort, rest] of [
      ['title', ['c', 'd', 'y']],
      ['-title', ['b', 'a', 'w']],
    ] as const) {
      const { items, nextCursor } = await list(path, { sort, limit: '3', cursor: '' });
      await tenant.patch(`${path}/${items.at(-1).id}`, { title: 'z' });
      const others = (await list(path, { sort, limit: '100', cursor: nextCursor })).items;
      const ends = others.map(({ title }: Json) => title.at(-1));
      for (const end of rest) expect(ends).toContain(end);
      await tenant.patch(`${path}/${items.at(-1).id}`, { title: items.at(-1).title });
    }
  });

  test('nextCursor is null on the last page, absent without `cursor`, and valid only for the same sort', async () => {
    const path = await entity([{ key: 'k', type: 'integer' }], [{ k: 1 }, { k: 2 }, { k: 3 }]);
    expect((await list(path, { cursor: '', limit: '3' })).nextCursor).toBeNull();
    expect((await list(path, { limit: '1' })).nextCursor).toBeUndefined();
    const { nextCursor } = await list(path, { cursor: '', limit: '1', sort: 'k' });
    for (const query of ['sort=-k', 'sort=k,id', 'sort=createdAt', 'page=2&sort=k', '']) {
      expect([query, (await tenant.get(`${path}?limit=1&cursor=${nextCursor}&${query}`)).status]).toEqual([query, 400]);
    }
    for (const value of ['abc', 'NaN', '1e999999', "'", '\0', '\ud800']) {
      const forged = Buffer.from(JSON.stringify(['+k:integer', [value], crypto.randomUUID()])).toString('base64url');
      expect([200, 400]).toContain((await tenant.get(`${path}?sort=k&cursor=${forged}`)).status);
    }
  });
});

describe('filters', () => {
  test('terms are combined with AND and compared by the type of the field', async () => {
    const path = await entity(
      [
        { key: 'status', type: 'select', options: ['open', 'closed'], indexed: true },
        { key: 'amount', type: 'number' },
        { key: 'title', type: 'text' },
        { key: 'tags', type: 'multiselect', options: ['x', 'y'] },
        { key: 'due', type: 'date' },
      ],
      [
        { status: 'open', amount: 9, title: 'Alpha beta', tags: ['x'], due: '2024-01-01' },
        { status: 'open', amount: 10, title: 'gamma', tags: ['x', 'y'] },
        { status: 'closed', amount: 100, title: "O'Reilly 100%" },
        { title: 'none' },
      ],
    );
    const cases: [filters: string, amounts: unknown[]][] = [
      ['status = open', [9, 10]],
      ['status = "open" AND amount > 9', [10]],
      ['amount >= 9 AND amount <= 10', [9, 10]],
      ['amount < 10', [9]],
      ['amount != 10', [9, 100, null]],
      ['title contains BETA', [9]],
      ['title contains "%"', [100]],
      ['title contains "_"', []],
      [`title = "O'Reilly 100%"`, [100]],
      ['tags contains y', [10]],
      ['due > 2023-12-31', [9]],
      ['amount is null', [null]],
      ['amount = null', [null]],
      ['amount in (9, 100)', [9, 100]],
      ['status = open OR amount = 100', [9, 10, 100]],
      ['NOT status = open', [100, null]],
      ['  ', [9, 10, 100, null]],
    ];
    for (const [filters, amounts] of cases) {
      const page = await list(path, { filters, sort: 'amount' });
      expect([filters, page.items.map(({ amount }: Json) => amount)]).toEqual([filters, amounts]);
      expect([filters, page.total]).toEqual([filters, amounts.length]);
    }
    const plus = await tenant.get(`${path}?filters=status+%3D+open+AND+amount+%3E+9`);
    expect(plus.body.data.total).toBe(1);
  });

  test('filter.{fieldKey} is an equality, combined with filters and search', async () => {
    const path = await entity(
      [
        { key: 'a', type: 'text' },
        { key: 'n', type: 'integer' },
        { key: 'f', type: 'boolean' },
      ],
      [
        { a: 'x y', n: 1, f: true },
        { a: 'x', n: 1, f: false },
        { a: 'x', n: 2 },
      ],
    );
    expect(await list(path, { 'filter.a': 'x' })).toMatchObject({ total: 2 });
    expect(await list(path, { 'filter.a': 'x', 'filter.n': '1' })).toMatchObject({ total: 1 });
    expect(await list(path, { 'filter.n': '1', filters: 'f = true' })).toMatchObject({ total: 1 });
    expect(await list(path, { 'filter.n': '1', filters: 'f = true', search: 'x' })).toMatchObject({ total: 1 });
    expect(await list(path, { 'filter.a': "x' or '1'='1" })).toMatchObject({ total: 0 });
    expect(await list(path, { 'filter.a': '' })).toMatchObject({ total: 0 });
  });

  test('a condition may follow a relation one step', async () => {
    const people = await entity([{ key: 'city', type: 'text' }], [{ city: 'Rome' }, { city: 'Oslo' }]);
    const [oslo, rome] = (await list(people)).items;
    const path = await entity(
      [
        { key: 'owner', type: 'relation', entity: people.split('/')[3] },
        { key: 'n', type: 'integer' },
      ],
      [{ owner: rome.id, n: 1 }, { owner: oslo.id, n: 2 }, { n: 3 }],
    );
    expect(await values(path, 'n', { filters: 'owner.city = Rome' })).toEqual([1]);
    expect(await values(path, 'n', { filters: 'owner.city != Rome', sort: 'n' })).toEqual([2, 3]);
    await tenant.patch(`${people}/${oslo.id}`, { city: 'Rome' });
    expect(await list(path, { filters: 'owner.city = Rome' })).toMatchObject({ total: 2 });
    expect((await tenant.get(`${path}?filters=owner.nothing%20=%201`)).status).toBe(400);
    expect((await tenant.get(`${path}?filters=owner.owner.city%20=%201`)).status).toBe(400);
  });
});

describe('search', () => {
  test('every term must occur in the text fields, as a word or prefix, in any case', async () => {
    const path = await entity(
      [
        { key: 'title', type: 'text' },
        { key: 'mail', type: 'email' },
        { key: 'site', type: 'url' },
        { key: 'kind', type: 'select', options: ['hidden'] },
        { key: 'n', type: 'integer' },
      ],
      [
        { n: 1, title: 'The Quick brown-fox', mail: 'jane.doe@example.org' },
        { n: 2, title: 'Éclair ΟΔΟΣ straße', site: 'https://example.org/quick' },
        { n: 3, title: '東京都 の天気 中文', kind: 'hidden' },
        { n: 4, title: "party 🎉 it's 100%" },
        { n: 5 },
      ],
    );
    const cases: [search: string, found: number[]][] = [
      ['quick', [1, 2]],
      ['QUI', [1, 2]],
      ['uick', []],
      ['quick fox', [1]],
      ['quick jane', [1]],
      ['brown-fox', [1]],
      ['doe@example.org', [1]],
      ['éclair', [2]],
      ['ÉCLAIR', [2]],
      ['e\u0301clair', [2]],
      ['eclair', [2]],
      ['strasse', [2]],
      ['οδος', [2]],
      ['οδοσ', [2]],
      ['STRAß', [2]],
      ['東京', [3]],
      ['中文', [3]],
      ['ｑｕｉｃｋ', [1, 2]],
      ['🎉', [4]],
      ['🎃', []],
      ["it's", [4]],
      ['100', [4]],
      ['hidden', []],
      ["quick' | 'party", []],
      ['quick:* & !party', []],
      ['quick OR party', []],
      ['!!! ---', [1, 2, 3, 4, 5]],
      ['   ', [1, 2, 3, 4, 5]],
    ];
    for (const [search, found] of cases) {
      const page = await list(path, { search, sort: 'n' });
      expect([search, page.items.map(({ n }: Json) => n), page.total]).toEqual([search, found, found.length]);
    }
    const [record] = (await list(path, { search: 'party' })).items;
    await tenant.patch(`${path}/${record.id}`, { title: 'funeral' });
    expect(await list(path, { search: 'party' })).toMatchObject({ total: 0 });
    expect(await list(path, { search: 'funeral' })).toMatchObject({ total: 1 });
    await tenant.patch(`${path}/${record.id}`, { title: null });
    expect(await list(path, { search: 'funeral' })).toMatchObject({ total: 0 });
  });

  test('a long text is stored and searched', async () => {
    const path = await entity([{ key: 't', type: 'text' }]);
    const words = Array.from({ length: 60_000 }, (_, i) => `w${i}`).join(' ');
    expect((await tenant.post(path, { t: words })).status).toBe(201);
    expect((await tenant.post(path, { t: 'x'.repeat(500_000) })).status).toBe(201);
    expect(await list(path, { search: 'w59 w1' })).toMatchObject({ total: 1 });
    expect(await list(path, { search: 'x'.repeat(900) })).toMatchObject({ total: 1 });
  });
});

describe('with=', () => {
  const twelve = () =>
    entity(
      [
        { key: 'n', type: 'integer', indexed: true },
        { key: 'note', type: 'text' },
      ],
      Array.from({ length: 12 }, (_, n) => ({ n: n % 5 === 4 ? null : n % 3, note: `note ${n}` })),
    );

  test('etags adds the ETag of each record in the order of the items, also of parts and of expanded ones', async () => {
    const path = await twelve();
    const [, second] = (await list(path)).items;
    await tenant.patch(`${path}/${second.id}`, { note: 'changed' });
    const queries = [{}, { fields: 'n' }, { resolve: 'true' }, { cursor: '' }, { search: 'note' }];
    for (const query of queries as Record<string, string>[]) {
      const { items, etags } = await list(path, { ...query, with: 'etags' });
      expect(etags).toHaveLength(items.length);
      for (const [i, { id }] of items.entries()) {
        expect((await tenant.get(`${path}/${id}`)).headers.get('etag')).toBe(etags[i]);
      }
    }
    expect(Object.keys(await list(path))).not.toContain('etags');
    const lost = await tenant.patch(`${path}/${second.id}`, { note: 'lost' }, { 'if-match': '"1"' });
    expect(lost.status).toBe(412);
  });

  test('nextCursor on a numbered page continues after that page, whatever the order, filter and search', async () => {
    const path = await twelve();
    const queries = [{}, { sort: 'n' }, { sort: '-n,note' }, { filters: 'n < 2' }, { search: 'note', sort: '-note' }];
    for (const query of queries as Record<string, string>[]) {
      const all = (await list(path, { ...query, limit: '100' })).items.map(({ id }: Json) => id);
      const numbered = await list(path, { ...query, page: '2', limit: '3', with: 'nextCursor,etags' });
      expect([numbered.page, numbered.total, numbered.etags.length]).toEqual([2, all.length, 3]);
      const seen = numbered.items.map(({ id }: Json) => id);
      let { nextCursor } = numbered;
      while (nextCursor !== null) {
        const next = await list(path, { ...query, limit: '3', cursor: nextCursor });
        seen.push(...next.items.map(({ id }: Json) => id));
        nextCursor = next.nextCursor;
      }
      expect(seen).toEqual(all.slice(3));
    }
    expect(await list(path, { page: '4', limit: '4', with: 'nextCursor' })).toMatchObject({
      items: [],
      nextCursor: null,
    });
    expect(Object.keys(await list(path, { page: '1' }))).not.toContain('nextCursor');
  });

  test('anything else is a 400 that names the possible members', async () => {
    const path = await twelve();
    for (const wrong of ['etag', 'etags,', 'etags;nextCursor', 'ETAGS', ',']) {
      const answer = await tenant.get(`${path}?${new URLSearchParams({ with: wrong })}`);
      expect(answer.body.error.details).toEqual([{ path: 'with', message: 'must be a list of etags, nextCursor' }]);
    }
  });
});
