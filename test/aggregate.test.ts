// Aggregates: metrics, groups, the types of their results, and what is refused.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import type { TenantCaller } from '../src/access/caller.ts';
import type { ServiceError } from '../src/errors.ts';
import { aggregateRecords } from '../src/records/read/aggregate.ts';
import { exportRecords } from '../src/records/transfer/export.ts';
import { importRecords } from '../src/records/transfer/import.ts';
import { userCaller } from './support/callers.ts';
import { type Json, startService, type TestService, type TestTenant } from './support/service.ts';

const PATH = '/api/entities/sales/records';
const FIELDS = [
  { key: 'status', type: 'select', options: ['open', 'won'] },
  { key: 'amount', type: 'number' },
  { key: 'price', type: 'decimal' },
  { key: 'n', type: 'integer' },
  { key: 'paid', type: 'boolean' },
  { key: 'due', type: 'date' },
  { key: 'tags', type: 'multiselect', options: ['a'] },
  { key: 'count', type: 'integer' },
];
const SALES = [
  { status: 'won', amount: 0.1, price: '10000000000000000000.10', n: 1, paid: true, due: '2026-01-02' },
  { status: 'won', amount: 0.2, price: '0.05', n: 2, paid: false, due: '2025-01-02' },
  { status: 'open', amount: -5, price: '1.00', n: 7 },
  { amount: 4 },
];

let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService();
  tenant = await service.tenant();
  await tenant.post('/api/entities', { name: 'sales', fields: FIELDS });
  await tenant.post(`${PATH}/bulk`, { operations: SALES.map((data) => ({ op: 'create', data })) });
});
afterAll(async () => service.stop());

const aggregate = async (text: string): Promise<Json> => (await tenant.get(`${PATH}/aggregate?${text}`)).body;

describe('aggregates', () => {
  test('sums are exact; those of decimals are text, others numbers', async () => {
    const { data } = await aggregate('metrics=sum:price,sum:amount,sum:n,avg:n,avg:price&filters=status%20=%20"won"');
    expect(data.items).toEqual([
      {
        sum_price: '10000000000000000000.15',
        sum_amount: 0.3,
        sum_n: 3,
        avg_n: 1.5,
        avg_price: '5000000000000000000.075',
      },
    ]);
  });

  test('a sum that a JSON number would round or cannot hold is a text, never null', async () => {
    const path = '/api/entities/sums/records';
    const numbers = ['n', 'amount', 'price'].map((key, i) => ({ key, type: ['integer', 'number', 'decimal'][i] }));
    await tenant.post('/api/entities', { name: 'sums', fields: numbers });
    const values = [
      { n: Number.MAX_SAFE_INTEGER, amount: 1.7e308, price: '0.1' },
      { n: 2, amount: 1.7e308, price: '99999999999999999999' },
    ];
    await tenant.post(`${path}/bulk`, { operations: values.map((data) => ({ op: 'create', data })) });
    const metrics = 'sum:n,sum:amount,sum:price,max:n,max:amount';
    const { data } = (await tenant.get(`${path}/aggregate?metrics=${metrics}`)).body;
    expect(data.items).toEqual([
      {
        sum_n: '9007199254740993',
        sum_amount: `34${'0'.repeat(307)}`,
        sum_price: '99999999999999999999.1',
        max_n: Number.MAX_SAFE_INTEGER,
        max_amount: 1.7e308,
      },
    ]);
    const one = await tenant.get(`${path}/aggregate?metrics=sum:n,sum:amount&filters=n%20=%202`);
    expect(one.body.data.items).toEqual([{ sum_n: 2, sum_amount: 1.7e308 }]);
  });

  test('min and max have the type of their field', async () => {
    const { data } = await aggregate('metrics=min:due,max:due,min:paid,max:paid,max:price,min:amount,max:status');
    expect(data.items).toEqual([
      {
        min_due: '2025-01-02',
        max_due: '2026-01-02',
        min_paid: false,
        max_paid: true,
        max_price: '10000000000000000000.10',
        min_amount: -5,
        max_status: 'won',
      },
    ]);
  });

  test('groups are sorted by their values, missing values last', async () => {
    const { data } = await aggregate('groupBy=status');
    expect(data.items).toEqual([
      { status: 'open', count: 1 },
      { status: 'won', count: 2 },
      { status: null, count: 1 },
    ]);
  });

  test('without records there is one item and no group', async () => {
    const none = 'filters=n%20%3E%20100';
    expect((await aggregate(`metrics=count,sum:n&${none}`)).data.items).toEqual([{ count: 0, sum_n: null }]);
    expect((await aggregate(`groupBy=status&${none}`)).data.items).toEqual([]);
  });

  test('one answer reports every invalid metric and group', async () => {
    const { error } = await aggregate('metrics=total,sum,sum:status,max:tags,sum:zz,count&groupBy=zz,tags,n,count');
    expect(error.details.map(({ path, message }: Json) => `${path}: ${message}`)).toEqual([
      'groupBy: unknown field "zz"',
      'groupBy: records cannot be grouped by "tags"',
      'metrics: "total" is not count, sum, avg, min or max of a field',
      'metrics: "sum" names no field',
      'metrics: "status" has no sum: it does not hold numbers',
      'metrics: "tags" has no max',
      'metrics: unknown field "zz"',
      'groupBy: takes at most 3 fields',
      'groupBy: "count" is also the name of a metric',
    ]);
  });
});

describe('a restricted caller', () => {
  test('aggregates its own rows only, and a hidden field is unknown', async () => {
    const caller = await confined();
    const { app } = service;
    expect((await aggregateRecords(app, caller, 'sales', { metrics: 'count,sum:n' })).items).toEqual([
      { count: 2, sum_n: 3 },
    ]);
    for (const input of [{ metrics: 'sum:amount' }, { groupBy: 'amount' }, { filters: 'amount = 1' }]) {
      const hidden = await failure(aggregateRecords(app, caller, 'sales', input));
      const unknown = JSON.parse(JSON.stringify(input).replaceAll('amount', 'nosuch'));
      const missing = await failure(aggregateRecords(app, caller, 'sales', unknown));
      expect(hidden.details).toEqual(JSON.parse(JSON.stringify(missing.details).replaceAll('nosuch', 'amount')));
      expect(hidden.status).toBe(400);
    }
  });

  function exportAs(caller: TenantCaller, input: object): Promise<ReadableStream<Uint8Array>> {
    const running = { onCut: () => undefined, callerNow: async () => caller };
    return exportRecords(service.app, caller, 'sales', 'csv', input, running);
  }

  test('exports its own rows and fields only', async () => {
    const file = await exportAs(await confined(), {});
    const text = await new Response(file).text();
    expect(text.split('\n')).toHaveLength(4);
    expect(text.split('\n')[0]).not.toContain('amount');
    const hidden = await failure(exportAs(await confined(), { fields: 'amount' }));
    expect(hidden.details).toEqual([{ path: 'fields', message: 'unknown field "amount"' }]);
  });

  test('imports neither hidden fields nor rows outside its filter', async () => {
    const body = async function* () {
      yield new TextEncoder().encode('{"status":"won"}\n{"status":"open"}\n{"status":"won","amount":1}\n');
    };
    const caller = await confined();
    const report = await importRecords(service.app, caller, 'sales', { format: 'ndjson' }, body(), async () => caller);
    expect(report).toEqual({
      importId: expect.any(String),
      created: 1,
      updated: 0,
      refused: 2,
      errors: [
        { line: 2, message: 'a record outside your rows cannot be created' },
        { line: 3, message: 'amount: is not a field of this entity' },
      ],
    });
  });
});

async function failure(work: Promise<unknown>): Promise<ServiceError> {
  return work.then(
    () => Promise.reject(new Error('it did not fail')),
    (error: ServiceError) => error,
  );
}

/** A caller restricted to rows in state won, without `amount`. */
const confined = (): Promise<TenantCaller> =>
  userCaller(service, tenant, {
    isUnlimited: false,
    permissions: { sales: ['read', 'create'] },
    restrictions: { sales: { excludeFields: ['amount'], rowFilter: 'status = "won"' } },
  });
