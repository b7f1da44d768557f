// Byte budgets of values: each limit at its edge, the worst value that a role may send, and records and definitions
// stored before a limit applied.
// Contract: neighbours#byte-budgets, neighbours#fair-shares.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { runRulesOnce } from '../src/rules/worker.ts';
import { invalidationsReceived, withRole } from './support/credentials.ts';
import { fields, newEntity } from './support/entities.ts';
import { startService, type TestService, type TestTenant } from './support/service.ts';
import { measureStall, STALL_MAX_MS } from './support/stalls.ts';
import { runInSchema, storedEvents } from './support/tenant-database.ts';

const MIB = 1_048_576;
/** A body of 1 MiB has room for a value of 1 MiB only with some more for its name. */
const LARGE_BODIES = { MAX_BODY_BYTES: String(8 * MIB) };
let service: TestService;
let tenant: TestTenant;

beforeAll(async () => {
  service = await startService(LARGE_BODIES);
  tenant = await service.tenant();
});
afterAll(() => service?.stop());

/** Asserts that the service has not stalled for long. */
async function expectNoStall<T>(run: () => Promise<T>): Promise<T> {
  const { result, stallMs } = await measureStall(run);
  expect(stallMs).toBeLessThan(STALL_MAX_MS);
  return result;
}

describe('texts that take long to process', () => {
  const attacks: [string, string, string][] = [
    ['text', 'unordered combining marks', `a${'\u0301\u0316'.repeat(80_000)}`],
    ['text', 'marks that compatibility makes', '\uff9e\u0316\u3099'.repeat(100_000)],
    ['text', 'ligatures of 18 letters', '\ufdfa'.repeat(300_000)],
    ['text', 'one word of capitals', 'ÉÀ'.repeat(250_000)],
    ['text', 'different words', Array.from({ length: 200_000 }, (_, i) => i.toString(36)).join(' ')],
    ['text', 'flags', '🇩🇪'.repeat(130_000)],
    ['email', 'marks', `a@${'\u0301\u0316'.repeat(80_000)}`],
    ['email', 'dots', `a@${'a.'.repeat(400_000)}`],
    ['url', 'marks', `https://${'a\u0301\u0316'.repeat(70_000)}.com`],
    ['url', 'labels', `https://${'é.'.repeat(200_000)}`],
    ['decimal', 'digits', '0'.repeat(900_000)],
    ['datetime', 'digits', `2026-01-01T00:00:00.${'0'.repeat(900_000)}Z`],
    ['uuid', 'hyphens', '-'.repeat(900_000)],
  ];
  test.each(attacks)('a %s of %s is stored or refused without a stall', async (type, _, value) => {
    const { path } = await newEntity(tenant, fields(`v ${type}`));
    const answer = await expectNoStall(() => tenant.post(path, { v: value }));
    expect(answer.status).toBe(type === 'text' ? 201 : 400);
    expect(answer.text.length).toBeLessThan(2 * MIB);
  });

  test('combining marks in reasonable number are searched as before', async () => {
    const { path } = await newEntity(tenant, fields('v text'), [{ v: `Cafe\u0301 ${'x'.repeat(9_000)} \ufb01n` }]);
    for (const word of ['café', 'fin']) expect((await tenant.get(`${path}?search=${word}`)).body.data.total).toBe(1);
  });

  test('every word of a long text is found, also one that spans two pieces of it', async () => {
    const words = Array.from({ length: 2_000 }, (_, i) => `wörd${i}x`);
    const { path } = await newEntity(tenant, fields('v text'), [{ v: words.join(' ') }]);
    for (const i of [0, 409, 410, 818, 1_999]) {
      expect((await tenant.get(`${path}?search=${encodeURIComponent(`wörd${i}x`)}`)).body.data.total).toBe(1);
    }
  });
});

describe('url', () => {
  test('a URL has at most 8,192 characters', async () => {
    const { path } = await newEntity(tenant, fields('v url'));
    const longest = `https://a.example/${'x'.repeat(8_192 - 18)}`;
    expect((await tenant.post(path, { v: longest })).status).toBe(201);
    const refused = await tenant.post(path, { v: `${longest}x` });
    expect([refused.status, refused.body.error.details]).toEqual([
      400,
      [{ path: 'v', message: 'must have at most 8192 characters' }],
    ]);
  });
});

describe('patterns', () => {
  async function define(pattern: string, maxLength?: number) {
    const name = `p${Math.random().toString(36).slice(2)}`;
    const field = { key: 'v', type: 'text', pattern, ...(maxLength === undefined ? {} : { maxLength }) };
    const answer = await tenant.post('/api/entities', { name, fields: [field] });
    return { answer, path: `/api/entities/${name}/records`, name };
  }
  const message = (text: string) => expect.stringContaining(text);

  test('a pattern has at most 1,000 instructions', async () => {
    expect((await define('x{998}', 5_000)).answer.status).toBe(201);
    const { answer } = await define('x{999}', 10);
    expect([answer.status, answer.body.error.message]).toEqual([400, message('1001 instructions, more than 1000')]);
  });

  test('instructions times the longest value are at most 5,000,000', async () => {
    expect((await define('x{998}', 5_000)).answer.status).toBe(201);
    const { answer } = await define('x{998}', 5_001);
    expect([answer.status, answer.body.error.message]).toEqual([400, message('set maxLength to at most 5000')]);
    expect((await define('x{498}')).answer.status).toBe(201);
    expect((await define('x{499}')).answer.status).toBe(400);
  });

  test('a field with a pattern and without maxLength holds 10,000 characters', async () => {
    const { path } = await define('^x*$');
    expect((await tenant.post(path, { v: 'x'.repeat(10_000) })).status).toBe(201);
    expect((await tenant.post(path, { v: 'x'.repeat(10_001) })).body.error.details).toEqual([
      { path: 'v', message: message('at most 10000 characters') },
    ]);
  });

  test('a pattern that would expand without bound is refused at once', async () => {
    for (const pattern of ['(?:(?:(?:a{60}){60}){60}){60}', `${'('.repeat(200)}a${'{9})'.repeat(200)}`]) {
      const { answer } = await expectNoStall(() => define(pattern, 10));
      expect(answer.status).toBe(400);
    }
  });

  test('the costliest matches of one record leave time for others between its fields', async () => {
    const definitions = Array.from({ length: 20 }, (_, i) => ({
      key: `f${i}`,
      type: 'text',
      pattern: '[ab]*a[ab]{900}[cd]',
      maxLength: 5_518,
    }));
    const { path } = await newEntity(tenant, definitions);
    const value = Array.from({ length: 5_518 }, (_, i) => 'ab'[((i * i) >> 3) % 2]).join('');
    const body = Object.fromEntries(definitions.map(({ key }, i) => [key, value.slice(i)]));
    const answer = await expectNoStall(() => tenant.post(path, body));
    expect([answer.status, answer.body.error.details.length]).toEqual([400, 20]);
  });

  test('a stored pattern beyond the limit refuses values, and can be changed to fit', async () => {
    const { path, name } = await define('^x*$');
    await runInSchema(
      service,
      tenant,
      `update field_definitions set rules = jsonb_build_object('pattern', 'x{999}') where key = 'v'
         and entity_id = (select id from entity_definitions where name = '${name}')`,
    );
    await service.app.invalidations.publish('catalog', tenant.id);
    await invalidationsReceived(service, tenant.id);
    const refused = await expectNoStall(() => tenant.post(path, { v: 'x'.repeat(9_000) }));
    expect(refused.body.error.details).toEqual([{ path: 'v', message: message('cannot be checked') }]);
    expect((await tenant.get(`/api/entities/${name}`)).body.data.fields[0].pattern).toBe('x{999}');
    const changed = await tenant.patch(`/api/entities/${name}/fields/v`, { pattern: '^x+$' });
    expect(changed.status).toBe(200);
    expect((await tenant.post(path, { v: 'xx' })).status).toBe(201);
  });
});

describe('defaults', () => {
  test('a default has at most 16 KiB of JSON', async () => {
    const define = (length: number) =>
      tenant.post('/api/entities', {
        name: `d${length}`,
        fields: [{ key: 'v', type: 'text', default: 'x'.repeat(length) }],
      });
    expect((await define(16_382)).status).toBe(201);
    const refused = await define(16_383);
    expect([refused.status, refused.body.error.details[0].path]).toEqual([400, 'fields.0.default']);
  });
});

describe('records', () => {
  /** As JSON: `{"f1":"..."}`. */
  const FULL = 'x'.repeat(MIB - 9);

  test('the values of a record take at most 1 MiB, however it is written', async () => {
    const { path } = await newEntity(tenant, fields('v text', 'w text'));
    const created = await tenant.post(path, { v: FULL });
    expect(created.status).toBe(201);
    const record = `${path}/${created.body.data.id}`;
    const refusals = [
      await tenant.post(path, { v: `${FULL}x` }),
      await tenant.patch(record, { w: 'x' }),
      await tenant.post(`${path}/bulk`, { operations: [{ op: 'create', data: { v: `${FULL}x` } }] }),
    ];
    for (const { status, body } of refusals) {
      expect([status, JSON.stringify(body)]).toEqual([400, expect.stringMatching(/\bv\b.*at most 1048576/)]);
    }
    expect((await tenant.patch(record, { v: 'short' })).status).toBe(200);
    expect((await tenant.patch(record, { w: 'x' })).status).toBe(200);
  });

  test('a value counts as its JSON in UTF-8', async () => {
    const { path } = await newEntity(tenant, fields('v text'));
    const third = Math.floor((MIB - 9) / 3);
    expect((await tenant.post(path, { v: '€'.repeat(third) })).status).toBe(201);
    expect((await tenant.post(path, { v: '€'.repeat(third + 1) })).status).toBe(400);
    expect((await tenant.post(path, { v: '\n'.repeat((MIB - 9) / 2 + 1) })).status).toBe(400);
  });

  test('a number counts with all its digits, as it is stored, however it is written', async () => {
    const { name, path } = await newEntity(tenant, fields('v json', 'w json'), [{ v: [1e308] }, { v: [5e-324] }]);
    const some = Array.from({ length: 3_000 }, () => 1e308);
    const many = [...some, ...Array.from({ length: 3_000 }, (_, i) => (i % 2 === 0 ? -1.5e-300 : 5e-324))];
    const created = await tenant.post(path, { v: some });
    expect(created.body.data.v).toEqual(some);
    const record = `${path}/${created.body.data.id}`;
    const refusals = [
      await tenant.post(path, { v: many }),
      await tenant.patch(record, { v: many }),
      await tenant.post(`${path}/bulk`, { operations: [{ op: 'create', data: { v: many } }] }),
    ];
    for (const { status, body } of refusals) {
      expect([status, JSON.stringify(body)]).toEqual([400, expect.stringMatching(/\bv\b.*at most 1048576/)]);
    }
    const other = await tenant.patch(record, { w: some });
    expect([other.status, other.body.error?.message]).toEqual([400, expect.stringMatching(/at most 1048576/)]);
    const field = { key: 'd', type: 'json', default: some.slice(0, 60) };
    const defined = await tenant.post(`/api/entities/${name}/fields`, field);
    expect([defined.status, defined.body.error?.details[0].path]).toEqual([400, 'default']);
    expect((await tenant.get(path)).status).toBe(200);
  });

  test('a refusal names no field that the caller may not see', async () => {
    const hidden = 'y'.repeat(MIB - 200);
    const { name, path } = await newEntity(tenant, fields('shown text', 'hidden text'), [{ hidden }]);
    const record = `${path}/${(await tenant.get(path)).body.data.items[0].id}`;
    const shown = 'x'.repeat(300);
    const refused = await tenant.patch(record, { shown });
    expect([refused.status, refused.body.error.details[0].path]).toEqual([400, 'hidden']);
    const client = await withRole(service, tenant, {
      permissions: { [name]: ['update', 'read'] },
      entities: { [name]: { fields: ['shown'] } },
    });
    const asRole = await client.patch(record, { shown });
    expect([asRole.status, asRole.body.error.details[0].path]).toEqual([400, 'shown']);
    expect(asRole.text).not.toContain('hidden');
  });

  test('a record stored beyond the limit can be read, shrunk and deleted, and not enlarged', async () => {
    const { name, path } = await newEntity(tenant, fields('v text', 'w text', 'n integer'), [{ v: 'a' }, { v: 'b' }]);
    await runInSchema(
      service,
      tenant,
      `update entity_records set data = data || jsonb_build_object('f2', repeat('x', 1500000))
         where entity_id = (select id from entity_definitions where name = '${name}')`,
    );
    const listed = await tenant.get(path);
    const [first, second] = listed.body.data.items;
    const record = `${path}/${first.id}`;
    expect((await tenant.patch(record, { n: 1 })).status).toBe(400);
    expect((await tenant.patch(record, { w: 'x'.repeat(1_400_000) })).status).toBe(200);
    expect((await tenant.patch(record, { w: 'fits' })).body.data.w).toBe('fits');
    expect((await tenant.delete(`${path}/${second.id}`)).status).toBe(200);
  });
});

describe('templates', () => {
  const rule = (entity: string, trigger: string, action: object) =>
    tenant.post('/api/rules', { name: 'fills in', entity, trigger, action });

  test('a before rule fills in at most 64 KiB', async () => {
    const { name, path } = await newEntity(tenant, fields('a text', 'b text', 'c text'));
    await rule(name, 'before_create', { type: 'set', values: { b: '{{a}}{{a}}', c: '{{a}}' } });
    // Three times the text, and the quotes of two values; the placeholders themselves count as well.
    expect((await tenant.post(path, { a: 'x'.repeat(21_000) })).status).toBe(201);
    const refused = await tenant.post(path, { a: 'x'.repeat(22_000) });
    expect([refused.status, refused.body.error.code]).toEqual([400, 'BUSINESS_RULE_ERROR']);
    expect(refused.body.error.message).toMatch(/the rule "fills in" fills in more than 65536 bytes/);
  });

  test('a text with thousands of placeholders is not built', async () => {
    const { name, path } = await newEntity(tenant, fields('a text', 'b text'));
    expect((await rule(name, 'before_create', { type: 'set', values: { b: '{{a}}'.repeat(2_000) } })).status).toBe(201);
    const before = process.memoryUsage().rss;
    const refused = await expectNoStall(() => tenant.post(path, { a: 'x'.repeat(500_000) }));
    expect(refused.body.error.code).toBe('BUSINESS_RULE_ERROR');
    expect(process.memoryUsage().rss - before).toBeLessThan(300 * MIB);
  });

  test('an after rule that fills in too much fails at once, and is not tried again', async () => {
    const { name, path } = await newEntity(tenant, fields('a text', 'b text'));
    await rule(name, 'after_create', { type: 'update_record', values: { b: '{{a}}'.repeat(2_000) } });
    expect((await tenant.post(path, { a: 'x'.repeat(500_000) })).status).toBe(201);
    const run = () => runRulesOnce(service.app, new AbortController().signal);
    await expectNoStall(async () => {
      while ((await run()) > 0);
    });
    const [failed, ...others] = await storedEvents(service, tenant, 'rule.failed');
    expect([failed?.payload.data.error, others]).toEqual([expect.stringContaining('65536 bytes'), []]);
  });
});

describe('changes of a definition', () => {
  test('stored values are matched against a costly pattern without a stall', async () => {
    const { name, path } = await newEntity(tenant, [{ key: 'v', type: 'text', maxLength: 5_518 }]);
    const value = Array.from({ length: 5_500 }, (_, i) => 'ab'[((i * i) >> 3) % 2]).join('');
    const operations = Array.from({ length: 20 }, (_, i) => ({ op: 'create', data: { v: `${i}${value}` } }));
    expect((await tenant.post(`${path}/bulk`, { operations })).status).toBe(200);
    const answer = await expectNoStall(() =>
      tenant.patch(`/api/entities/${name}/fields/v`, { pattern: '[ab]*a[ab]{900}[cd]' }),
    );
    expect([answer.status, answer.body.error.message]).toEqual([409, expect.stringContaining('20 record(s)')]);
  });
});
