// Relations: writing, expansion, and deletion of referenced records.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { createRecord, newEntity, SELF } from './support/entities.ts';
import { type Json, startService, type TestService, type TestTenant } from './support/service.ts';

let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService();
  tenant = await service.tenant();
});
afterAll(async () => service.stop());

const recordsOf = (name: string): string => `/api/entities/${name}/records`;

const entity = async (definitions: object[]): Promise<string> => (await newEntity(tenant, definitions)).name;

const record = async (name: string, values: object): Promise<string> =>
  (await createRecord(tenant, recordsOf(name), values)).id;

async function read(name: string, id: string, query = ''): Promise<Json> {
  return (await tenant.get(`${recordsOf(name)}/${id}${query}`)).body.data;
}

const UNKNOWN_ID = '0190c0de-0000-7000-8000-000000000001';
const text = { key: 'title', type: 'text' };

describe('writing relations', () => {
  test('a relation refers to one existing record of its entity, relations to several', async () => {
    const target = await entity([text]);
    const source = await entity([
      { key: 'one', type: 'relation', entity: target },
      { key: 'many', type: 'relations', entity: target },
    ]);
    const [a, b] = [await record(target, {}), await record(target, {})];
    const id = await record(source, { one: a.toUpperCase(), many: [b, a, b] });
    expect(await read(source, id)).toMatchObject({ one: a, many: [b, a] });
    for (const bad of [
      { one: UNKNOWN_ID },
      { many: [a, UNKNOWN_ID] },
      { one: id },
      { one: 'x' },
      { one: [a] },
      { many: a },
      { many: [1] },
      { one: { id: a } },
    ]) {
      const created = await tenant.post(recordsOf(source), bad);
      expect([bad, created.status, created.body.error.details.length]).toEqual([bad, 400, 1]);
      expect(created.body.error.details[0].path).toBe(Object.keys(bad)[0]);
      expect((await tenant.patch(`${recordsOf(source)}/${id}`, bad)).status).toBe(400);
    }
    expect((await tenant.patch(`${recordsOf(source)}/${id}`, { one: null, many: [] })).body.data).toMatchObject({
      one: null,
      many: [],
    });
  });
});

describe('expansion', () => {
  test('resolve replaces the ids of relations with flat records', async () => {
    const target = await entity([text]);
    const source = await entity([
      { key: 'one', type: 'relation', entity: target },
      { key: 'many', type: 'relations', entity: target },
    ]);
    const [a, b] = [await record(target, { title: 'a' }), await record(target, { title: 'b' })];
    const id = await record(source, { one: a, many: [b, a] });
    const [flatA, flatB] = [await read(target, a), await read(target, b)];
    for (const query of ['?resolve=true', '?resolve_depth=1', '?resolve=false&resolve_depth=1', '?resolve_depth=2']) {
      expect([query, await read(source, id, query)]).toMatchObject([query, { one: flatA, many: [flatB, flatA] }]);
      const listed = await tenant.get(`${recordsOf(source)}${query}`);
      expect(listed.body.data.items[0]).toMatchObject({ one: flatA, many: [flatB, flatA] });
    }
    for (const query of ['', '?resolve=false']) {
      expect([query, await read(source, id, query)]).toMatchObject([query, { one: a, many: [b, a] }]);
    }
    const part = await read(source, id, '?resolve=true&fields=one');
    expect(part).toMatchObject({ one: flatA });
    expect(part.many).toBeUndefined();
  });

  test('depth 2 expands the next level, and ends cycles', async () => {
    const name = await entity([text, { key: 'next', type: 'relation', entity: SELF }]);
    const a = await record(name, { title: 'a' });
    const b = await record(name, { title: 'b', next: a });
    await tenant.patch(`${recordsOf(name)}/${a}`, { next: b });
    expect(await read(name, a, '?resolve_depth=1')).toMatchObject({ id: a, next: { id: b, next: a } });
    expect(await read(name, a, '?resolve_depth=2')).toMatchObject({ id: a, next: { id: b, next: { id: a, next: b } } });
    await tenant.patch(`${recordsOf(name)}/${a}`, { next: a });
    expect(await read(name, a, '?resolve_depth=2')).toMatchObject({ id: a, next: { id: a, next: { id: a, next: a } } });
  });

  test('one response expands at most 1000 different records', async () => {
    const target = await entity([text]);
    const source = await entity([{ key: 'many', type: 'relations', entity: target }]);
    const ids: string[] = [];
    for (let i = 0; i < 1_010; i += 101) {
      ids.push(...(await Promise.all(Array.from({ length: 101 }, (_, j) => record(target, { title: `${i + j}` })))));
    }
    await record(source, { many: ids.slice(0, 500) });
    await record(source, { many: ids.slice(500, 1_000) });
    const full = await tenant.get(`${recordsOf(source)}?resolve=true`);
    expect(full.body.data.items.flatMap(({ many }: Json) => many.map(({ title }: Json) => title))).toHaveLength(1_000);
    await record(source, { many: ids.slice(999) });
    const over = await tenant.get(`${recordsOf(source)}?resolve=true`);
    expect([over.status, over.body.error.details[0].path]).toEqual([400, 'resolve']);
    expect((await tenant.get(`${recordsOf(source)}?resolve=true&limit=1`)).status).toBe(200);
    const tooMany = await tenant.post(recordsOf(source), { many: [...ids, ...ids] });
    expect(tooMany.status).toBe(400);
    for (let i = 0; i < 25; i++) await record(source, { many: ids.slice(0, 450) });
    expect((await tenant.get(`${recordsOf(source)}?resolve=true&limit=25`)).status).toBe(400);
  });
});

describe('deleting referenced records', () => {
  const reference = (target: string, onDelete: string | undefined, type = 'relation') => [
    { key: 'to', type, entity: target, onDelete },
    text,
  ];

  for (const type of ['relation', 'relations']) {
    const to = (id: string): object => ({ to: type === 'relation' ? id : [id] });

    test(`restrict, the default of a ${type} field, is a 409 that changes nothing`, async () => {
      const target = await entity([text]);
      const source = await entity(reference(target, undefined, type));
      const id = await record(target, {});
      const referring = await record(source, to(id));
      const refused = await tenant.delete(`${recordsOf(target)}/${id}`);
      expect([refused.status, refused.body.error.code]).toEqual([409, 'CONFLICT']);
      expect((await read(target, id)).id).toBe(id);
      await tenant.delete(`${recordsOf(source)}/${referring}`);
      expect((await tenant.delete(`${recordsOf(target)}/${id}`)).status).toBe(200);
    });

    test(`set_null removes the id from a ${type} field`, async () => {
      const target = await entity([text]);
      const source = await entity(reference(target, 'set_null', type));
      const [gone, kept] = [await record(target, {}), await record(target, {})];
      const referring = await record(source, {
        ...(type === 'relation' ? { to: gone } : { to: [kept, gone] }),
        title: 'stays',
      });
      const before = await tenant.get(`${recordsOf(source)}/${referring}`);
      expect((await tenant.delete(`${recordsOf(target)}/${gone}`)).status).toBe(200);
      const after = await tenant.get(`${recordsOf(source)}/${referring}`);
      expect(after.body.data).toMatchObject({ to: type === 'relation' ? null : [kept], title: 'stays' });
      expect(after.headers.get('etag')).not.toBe(before.headers.get('etag'));
      const found = await tenant.get(`${recordsOf(source)}?search=stays`);
      expect(found.body.data.total).toBe(1);
    });

    test(`cascade deletes the records that refer through a ${type} field, level by level, and updates totals`, async () => {
      const target = await entity([text]);
      const middle = await entity(reference(target, 'cascade', type));
      const last = await entity(reference(middle, 'cascade', type));
      const id = await record(target, {});
      const other = await record(target, {});
      for (let i = 0; i < 3; i++) await record(last, to(await record(middle, to(id))));
      await record(last, to(await record(middle, to(other))));
      expect((await tenant.delete(`${recordsOf(target)}/${id}`)).status).toBe(200);
      for (const name of [target, middle, last]) {
        const { items, total } = (await tenant.get(recordsOf(name))).body.data;
        expect([name, total, items.length]).toEqual([name, 1, 1]);
      }
    });
  }

  test('a deletion reaches more records than are read at once, through several levels, and is one transaction', async () => {
    const target = await entity([text]);
    const middle = await entity(reference(target, 'cascade'));
    const cleared = await entity(reference(middle, 'set_null'));
    const last = await entity(reference(middle, 'restrict'));
    const parent = await record(target, {});
    const make = async (name: string, data: (i: number) => object, count: number): Promise<string[]> => {
      const operations = Array.from({ length: count }, (_, i) => ({ op: 'create', data: data(i) }));
      const { body } = await tenant.post(`${recordsOf(name)}/bulk`, { operations });
      return body.data.results.map(({ id }: Json) => id);
    };
    const middles = [
      ...(await make(middle, () => ({ to: parent }), 700)),
      ...(await make(middle, () => ({ to: parent }), 600)),
    ];
    // More bytes than are read at once.
    for (let i = 0; i < 9; i++) await record(middle, { to: parent, title: 'x'.repeat(600_000) });
    await make(cleared, (i) => ({ to: middles[i] }), 900);
    const [refusing] = await make(last, () => ({ to: middles.at(-1) }), 1);
    const total = async (name: string): Promise<number> => (await tenant.get(recordsOf(name))).body.data.total;
    expect((await tenant.delete(`${recordsOf(target)}/${parent}`)).status).toBe(409);
    expect([await total(target), await total(middle)]).toEqual([1, 1_309]);
    expect((await tenant.delete(`${recordsOf(last)}/${refusing}`)).status).toBe(200);
    expect((await tenant.delete(`${recordsOf(target)}/${parent}`)).status).toBe(200);
    expect([await total(target), await total(middle), await total(cleared)]).toEqual([0, 0, 900]);
    const left = await tenant.get(`${recordsOf(cleared)}?filters=${encodeURIComponent('to is not null')}`);
    expect(left.body.data.total).toBe(0);
  }, 60_000);

  test('cyclic cascades end, and a restrict anywhere in them undoes the deletion', async () => {
    const name = await entity(reference(SELF, 'cascade'));
    const first = await record(name, {});
    const second = await record(name, { to: first });
    await tenant.patch(`${recordsOf(name)}/${first}`, { to: second });
    const guard = await entity(reference(name, 'restrict'));
    const guarding = await record(guard, { to: second });
    expect((await tenant.delete(`${recordsOf(name)}/${first}`)).status).toBe(409);
    expect((await read(name, first)).to).toBe(second);
    expect((await read(name, second)).to).toBe(first);
    await tenant.delete(`${recordsOf(guard)}/${guarding}`);
    expect((await tenant.delete(`${recordsOf(name)}/${first}`)).status).toBe(200);
    expect((await tenant.get(recordsOf(name))).body.data.total).toBe(0);
    const loop = await record(name, {});
    await tenant.patch(`${recordsOf(name)}/${loop}`, { to: loop });
    expect((await tenant.delete(`${recordsOf(name)}/${loop}`)).status).toBe(200);
    expect((await tenant.get(recordsOf(name))).body.data.total).toBe(0);
  });

  test('records that are deleted together do not restrict each other; referring records that stay are counted', async () => {
    const back = { key: 'back', type: 'relation', entity: SELF, onDelete: 'restrict' };
    const name = await entity([...reference(SELF, 'cascade'), back]);
    const first = await record(name, {});
    const second = await record(name, { to: first });
    const third = await record(name, { to: second });
    await tenant.patch(`${recordsOf(name)}/${first}`, { back: second });
    await tenant.patch(`${recordsOf(name)}/${second}`, { back: third });
    const others = [await record(name, { back: second }), await record(name, { back: second })];
    const refused = await tenant.delete(`${recordsOf(name)}/${first}`);
    expect([refused.status, refused.body.error.message]).toEqual([409, `still referred to by 2 record(s) of ${name}`]);
    for (const id of others) await tenant.delete(`${recordsOf(name)}/${id}`);
    expect((await tenant.delete(`${recordsOf(name)}/${first}`)).status).toBe(200);
    expect((await tenant.get(recordsOf(name))).body.data.total).toBe(0);
  });

  for (const onDelete of ['restrict', 'set_null', 'cascade']) {
    test(`no reference dangles when records are created and deleted concurrently, under ${onDelete}`, async () => {
      const target = await entity([text]);
      const source = await entity(reference(target, onDelete));
      const many = await entity([{ key: 'to', type: 'relations', entity: target, onDelete }]);
      const ids = await Promise.all(Array.from({ length: 20 }, () => record(target, {})));
      const outcomes = await Promise.all(
        ids.flatMap((id) => [
          tenant.post(recordsOf(source), { to: id }),
          tenant.delete(`${recordsOf(target)}/${id}`),
          tenant.post(recordsOf(many), { to: [id, ids[0]] }),
        ]),
      );
      for (const { status, text: received } of outcomes) expect([200, 201, 400, 404, 409], received).toContain(status);
      const alive = new Set(
        (await tenant.get(`${recordsOf(target)}?limit=100`)).body.data.items.map(({ id }: Json) => id),
      );
      for (const name of [source, many]) {
        const { items, total } = (await tenant.get(`${recordsOf(name)}?limit=100`)).body.data;
        expect(items).toHaveLength(total);
        const named = items.flatMap(({ to }: Json) => to ?? []);
        expect(named.filter((id: string) => !alive.has(id))).toEqual([]);
      }
    });
  }

  test('two deletions that update each other’s references both end', async () => {
    const name = await entity(reference(SELF, 'cascade'));
    for (let round = 0; round < 4; round++) {
      const first = await record(name, {});
      const second = await record(name, { to: first });
      await tenant.patch(`${recordsOf(name)}/${first}`, { to: second });
      const answers = await Promise.all([first, second].map((id) => tenant.delete(`${recordsOf(name)}/${id}`)));
      expect(answers.map(({ status }) => status).sort()).toEqual([200, 404]);
    }
    expect((await tenant.get(recordsOf(name))).body.data.total).toBe(0);
  });
});
