// Costly patterns are matched and compiled in a thread: the event loop serves others meanwhile, wherever the value comes from.
// Each pair of pattern and value below is the worst that the limits admit.
// Contract: neighbours#fair-shares, neighbours#byte-budgets.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { endPatternThread, runInThread } from '../src/runtime/pattern-thread.ts';
import { newEntity } from './support/entities.ts';
import { startService, type TestService, type TestTenant } from './support/service.ts';
import { measureStall, STALL_MAX_MS, slowestHealth } from './support/stalls.ts';

/** With SERVICE_RUNTIME=deno the service is another process, and only /health shows its stalls, beside a busy machine's. */
const IS_OTHER_PROCESS = process.env.SERVICE_RUNTIME === 'deno';
const COSTLY = { key: 'v', type: 'text', pattern: '(?i)[\\w\\pL]{900}[cd]', maxLength: 5_500 };
const LONG_TO_COMPILE = `(?i)${'[a-z\\x{100}-\\x{ffff}]'.repeat(40)}`;
let service: TestService;
let tenant: TestTenant;

beforeAll(async () => {
  service = await startService();
  tenant = await service.tenant();
});
afterAll(() => service?.stop());

async function expectNoStall<T>(run: () => Promise<T>): Promise<T> {
  const { result, stallMs } = await (IS_OTHER_PROCESS ? slowestHealth(service.url, run) : measureStall(run));
  expect(stallMs).toBeLessThan(STALL_MAX_MS);
  return result;
}

const value = (i: number): string => `${i}${'é'.repeat(5_400)}`;
const eight = [0, 1, 2, 3, 4, 5, 6, 7];

test('eight clients send the costliest values', async () => {
  const { path } = await newEntity(tenant, [COSTLY]);
  const answers = await expectNoStall(() =>
    Promise.all(eight.map((i) => tenant.post(path, { v: `${value(i)}${i % 2 === 0 ? 'c' : '!'}` }))),
  );
  expect(answers.map(({ status }) => status)).toEqual(eight.map((i) => (i % 2 === 0 ? 201 : 400)));
});

test('a rule sets the costliest value, and the rule itself is defined with it', async () => {
  const { path, name } = await newEntity(tenant, [COSTLY, { key: 'w', type: 'text' }]);
  const rule = { entity: name, name: 'r', trigger: 'before_create', condition: null, priority: 0 };
  const action = (v: string) => ({ ...rule, action: { type: 'set', values: { v } } });
  const refused = await expectNoStall(() => tenant.post('/api/rules', action(value(1))));
  expect([refused.status, refused.body.error.details[0].path]).toEqual([400, 'action.values.v']);
  expect((await tenant.post('/api/rules', action('{{w}}'))).status).toBe(201);
  const answers = await expectNoStall(() =>
    Promise.all(eight.map((i) => tenant.post(path, { w: `${value(i)}${i % 2 === 0 ? 'c' : '!'}` }))),
  );
  expect(answers.map(({ status }) => status)).toEqual(eight.map((i) => (i % 2 === 0 ? 201 : 400)));
});

test('patterns that take long to compile, and defaults that take long to match', async () => {
  const patterns = eight.map((i) => ({ key: `f${i}`, type: 'text', pattern: `${LONG_TO_COMPILE}${i}` }));
  const entity = await expectNoStall(() => newEntity(tenant, patterns));
  expect((await tenant.get(`/api/entities/${entity.name}`)).body.data.fields).toHaveLength(8);
  expect((await expectNoStall(() => tenant.post(entity.path, { f0: `${'a'.repeat(40)}0`, f1: 'a' }))).status).toBe(400);
  const defaults = eight.map((i) => ({ ...COSTLY, key: `f${i}`, default: value(i) }));
  const refused = await expectNoStall(() => tenant.post('/api/entities', { name: 'no_defaults', fields: defaults }));
  expect(refused.body.error.details.map(({ path }: { path: string }) => path)).toEqual(
    eight.map((i) => `fields.${i}.default`),
  );
});

test('stored values move to a field type with the costliest pattern', async () => {
  const records = eight.map((i) => ({ v: `${value(i)}c` }));
  const { name, path } = await newEntity(tenant, [{ key: 'v', type: 'json' }], records);
  const { key: _, ...change } = COSTLY;
  const moved = await expectNoStall(() => tenant.patch(`/api/entities/${name}/fields/v`, change));
  expect([moved.status, moved.body.data.pattern]).toEqual([200, COSTLY.pattern]);
  expect((await tenant.get(path)).body.data.total).toBe(8);
});

test('a match continues in another thread when its thread ends', async () => {
  const text = value(0);
  const matches = eight.map((i) => runInThread(COSTLY.pattern, `${text}${i % 2 === 0 ? 'c' : '!'}`));
  await endPatternThread();
  expect((await Promise.all(matches)).map((result) => result.matches)).toEqual(eight.map((i) => i % 2 === 0));
  expect(await runInThread('(', null)).toEqual({ size: null, matches: null });
});
