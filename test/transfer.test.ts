// Import, export and aggregates of a real list of airports. Every response is compared with one computed from
// the file. Formats are checked against csv-parse.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import airports from 'airports';
import { parse } from 'csv-parse/sync';
import { FIELD_TYPES } from '../src/entities/field-types.ts';
import { cellsOf, csvLine } from '../src/records/transfer/csv.ts';
import { sql } from '../src/runtime/sql.ts';
import { type Json, startService, type TestService, type TestTenant } from './support/service.ts';
import { measureStall, STALL_MAX_MS } from './support/stalls.ts';

interface Airport {
  iata: string;
  iso: string;
  status: number;
  title: string | null;
  continent: string;
  kind: string;
  lat: string | null;
  lon: number | null;
}

const DECIMAL = /^[+-]?\d+(\.\d+)?$/;
const seen = new Set<string>();
/** The file's airports, without duplicate codes. */
const rows: Airport[] = (airports as Json[])
  .filter(({ iata }) => typeof iata === 'string' && !seen.has(iata) && seen.add(iata))
  .map(({ iata, iso, status, name, continent, type, lat, lon }) => ({
    iata,
    iso,
    status,
    title: name ?? null,
    continent,
    kind: type,
    lat: DECIMAL.test(lat) ? lat : null,
    lon: DECIMAL.test(lon) ? Number(lon) : null,
  }));

const FIELDS = [
  { key: 'iata', type: 'text', unique: true },
  { key: 'iso', type: 'text', indexed: true },
  { key: 'status', type: 'integer' },
  { key: 'title', type: 'text' },
  { key: 'continent', type: 'text', indexed: true },
  { key: 'kind', type: 'text' },
  { key: 'lat', type: 'decimal' },
  { key: 'lon', type: 'number' },
];
const KEYS = FIELDS.map(({ key }) => key) as (keyof Airport)[];
const CSV = { 'content-type': 'text/csv' };
const NDJSON = { 'content-type': 'application/x-ndjson' };
const PORTS = '/api/entities/ports/records';

let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService();
  tenant = await service.tenant();
  await make('ports');
  const body = rows.map((row) => `${JSON.stringify(row)}\n`).join('');
  const answer = await tenant.post(`${PORTS}/import`, body, NDJSON);
  expect(answer.body.data).toMatchObject({ created: rows.length, refused: 0, errors: [] });
});
afterAll(async () => service.stop());

async function make(name: string, fields: object[] = FIELDS): Promise<string> {
  const made = await tenant.post('/api/entities', { name, fields });
  if (made.status !== 201) throw new Error(made.text);
  return `/api/entities/${name}/records`;
}

const own = (record: Json): Json => Object.fromEntries(KEYS.map((key) => [key, record[key]]));
const byCode = (a: { iata: string }, b: { iata: string }): number => (a.iata < b.iata ? -1 : a.iata > b.iata ? 1 : 0);
const linesOf = (text: string): Json[] =>
  text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line));
const query = (path: string, parameters: Record<string, string>): string =>
  `${path}?${new URLSearchParams(parameters)}`;

describe('export and import', () => {
  test('a header of 300,000 columns is refused at once, with some of its problems', async () => {
    const path = await make('wide');
    const { result, stallMs } = await measureStall(() =>
      tenant.post(`${path}/import`, `${'ab,'.repeat(300_000)}\n`, CSV),
    );
    expect([result.status, result.body.error.details.length]).toEqual([400, 100]);
    expect(stallMs).toBeLessThan(STALL_MAX_MS);
  });

  test('an NDJSON import is exported unchanged', async () => {
    const file = await tenant.get(`${PORTS}/export?format=ndjson`);
    expect([file.status, file.headers.get('content-disposition')], file.text.slice(0, 500)).toEqual([
      200,
      'attachment; filename="ports.ndjson"',
    ]);
    expect(linesOf(file.text).map(own).sort(byCode)).toEqual([...rows].sort(byCode));
  });

  test('an independent parser reads a CSV export the same way, and importing it creates equal records', async () => {
    const file = await tenant.get(`${PORTS}/export?format=csv`);
    expect(file.headers.get('content-type')).toBe('text/csv; charset=utf-8');
    const table: string[][] = parse(file.text);
    expect(table[0]).toEqual(['id', 'entityId', ...KEYS, 'createdAt', 'updatedAt', 'createdBy', 'updatedBy']);
    expect(table).toHaveLength(rows.length + 1);
    const lines = file.text.split('\n').slice(0, -1);
    expect(lines.map((line) => cellsOf(line, 1_000))).toEqual(table);
    const copy = await make('copied');
    const answer = await tenant.post(`${copy}/import`, `\u{feff}${file.text.replaceAll('\n', '\r\n')}`, CSV);
    expect(answer.body.data).toMatchObject({ created: rows.length, refused: 0, errors: [] });
    const again = await tenant.get(`${copy}/export?fields=${KEYS}`);
    expect(linesOf(again.text).map(own).sort(byCode)).toEqual([...rows].sort(byCode));
  });

  test('export takes the filters, search, order and projection of lists', async () => {
    const parameters = {
      filters: 'continent = "OC" AND lon > 150',
      search: 'airport',
      sort: '-iata',
      fields: 'iata,lat',
    };
    const file = await tenant.get(query(`${PORTS}/export`, parameters));
    const expected = rows
      .filter((row) => row.continent === 'OC' && (row.lon ?? 0) > 150 && hasWord(row, 'airport'))
      .sort(byCode)
      .reverse();
    expect(expected.length).toBeGreaterThan(20);
    expect(linesOf(file.text).map(({ iata, lat }) => [iata, lat])).toEqual(
      expected.map(({ iata, lat }) => [iata, lat]),
    );
    expect(linesOf(file.text)[0]).not.toHaveProperty('title');
  });

  test('of a line with a million cells only as many are read as it may have, and one more', async () => {
    for (const text of [','.repeat(1_000_000), '"",'.repeat(300_000)]) expect(cellsOf(text, 4)).toHaveLength(4);
    const path = await make('cells');
    const header = await tenant.post(`${path}/import`, ','.repeat(1_000_000), CSV);
    expect([header.status, header.body.error.details.length]).toEqual([400, 100]);
    const lines = await tenant.post(`${path}/import`, `iata,title\nAAA${','.repeat(1_000_000)}\nBBB,b`, CSV);
    expect(lines.body.data).toMatchObject({
      created: 1,
      errors: [{ line: 2, message: 'has more cells, but the header has 2' }],
    });
  });

  test('rejected lines are reported with their numbers in the file', async () => {
    const path = await make('lines');
    const csv =
      'iata,title,status\r\nAAA,"two\nlines",1\r\nAAA,again,1\r\n\r\nBBB,x,many\r\nCCC,"a ""quoted"" one",\r\nDDD,x\r\nEEE,"x" y,1\r\nFFF,é,2';
    const answer = await tenant.post(`${path}/import`, csv, CSV);
    expect(answer.status).toBe(200);
    expect(answer.body.data).toEqual({
      importId: expect.any(String),
      created: 3,
      updated: 0,
      refused: 4,
      errors: [
        { line: 4, message: 'iata: already exists' },
        { line: 6, message: 'status: must be a whole number of at most 2^53 - 1' },
        { line: 8, message: 'has 2 cells, but the header has 3' },
        { line: 9, message: 'has misplaced quotes (see RFC 4180)' },
      ],
    });
    const { items } = (await tenant.get(`${path}?sort=iata`)).body.data;
    expect(items.map(({ iata, title }: Json) => [iata, title])).toEqual([
      ['AAA', 'two\nlines'],
      ['CCC', 'a "quoted" one'],
      ['FFF', 'é'],
    ]);
    const more = new TextEncoder().encode(
      '{"iata":"G"}\n[]\n{"iata":"G"}\n{"zz":1}\n{"iata":"a","iata":"b"}\n{x\n"\xff"\n',
    );
    more[more.length - 3] = 0xff;
    const report = (await tenant.post(`${path}/import`, more, NDJSON)).body.data;
    expect(report.created).toBe(1);
    expect(report.errors.map(({ line }: Json) => line)).toEqual([2, 3, 4, 5, 6, 7]);
  });

  test('records of a file with rejected lines in several batches are in the order of the file', async () => {
    const path = await make('ordered');
    const codes = Array.from({ length: 2_300 }, (_, i) => (i % 700 === 699 ? 'o0' : `o${i}`));
    const body = codes.map((iata) => `${JSON.stringify({ iata })}\n`).join('');
    const report = (await tenant.post(`${path}/import`, body, NDJSON)).body.data;
    expect(report).toMatchObject({ created: 2_297, refused: 3 });
    expect(report.errors.map(({ line }: Json) => line)).toEqual([700, 1_400, 2_100]);
    const { text } = await tenant.get(`${path}/export?sort=createdAt&order=asc&fields=iata`);
    const exported = text
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line).iata);
    expect(exported).toEqual(codes.filter((code, i) => i === 0 || code !== 'o0'));
  });

  test('a header with unknown columns, another content type or a compressed body is refused before anything is written', async () => {
    const path = await make('refused');
    const header = await tenant.post(`${path}/import`, 'iata,zz,createdAt\nA,1,\n', CSV);
    expect(header.status).toBe(400);
    expect(header.body.error.details).toEqual([{ path: 'zz', message: 'is not a field of this entity' }]);
    expect((await tenant.post(`${path}/import`, '{"iata":"A"}', { 'content-type': 'text/plain' })).status).toBe(415);
    expect((await tenant.post(`${path}/import`, 'iata\nA', { ...CSV, 'content-encoding': 'gzip' })).status).toBe(415);
    expect((await tenant.get(path)).body.data.total).toBe(0);
  });

  test('an imported record emits an event triggered by the system', async () => {
    const path = await make('caused');
    await tenant.post(`${path}/import`, 'iata\nA\nB\n', CSV);
    const { id } = (await tenant.get(path)).body.data.items[0];
    const { sql } = await import('../src/runtime/sql.ts');
    const events = await service.app.db.rows<{ triggered_by: string }>(sql`
      select triggered_by from platform.events where record_id = ${id}::uuid`);
    expect(events).toEqual([{ triggered_by: 'system' }]);
  });

  test('an aborted upload keeps the batches that were stored before', async () => {
    const path = await make('broken');
    const half = new ReadableStream<Uint8Array>({
      async start(controller) {
        const text = Array.from({ length: 1_200 }, (_, i) => `{"iata":"${i}"}\n`).join('');
        controller.enqueue(new TextEncoder().encode(text));
        while ((await tenant.get(path)).body.data.total < 1_000) await Bun.sleep(10);
        controller.error(new Error('gone'));
      },
    });
    const headers = { 'x-api-key': tenant.key, ...NDJSON };
    const sent = fetch(`${service.url}${path}/import`, { method: 'POST', headers, body: half });
    await expect(sent).rejects.toThrow('gone');
    await Bun.sleep(500);
    expect((await tenant.get(path)).body.data.total).toBe(1_000);
    expect(service.logged.join()).not.toContain('unexpectedly');
  });

  test('every value survives a round trip through a cell, and no cell is a formula', () => {
    const texts = [
      '',
      "'",
      "''",
      '=1+1',
      "'=1",
      '+49 30',
      '-x',
      '@a',
      '\tx',
      '\rx',
      'a,b',
      'a"b',
      'a\nb',
      ' x ',
      '＝1',
      'é',
    ];
    for (const value of texts) {
      const [cell = ''] = cellsOf(csvLine([FIELD_TYPES.text.cell.write(value), 'end']).slice(0, -1), 2) ?? [];
      expect(cell).not.toMatch(/^[=+\-@\t\r]/);
      expect(FIELD_TYPES.text.cell.read(cell)).toBe(value);
    }
    for (const [type, value] of [
      ['number', -5.25],
      ['integer', 7],
      ['boolean', false],
      ['json', { a: ['"', null] }],
      ['multiselect', ['a', 'b']],
    ] as const) {
      const { cell } = FIELD_TYPES[type];
      expect(cell.read(cell.write(value))).toEqual(value);
    }
    expect(FIELD_TYPES.number.cell.write(-5)).toBe('-5');
  });
});

test('large records are exported as they are read: with all characters that JSON escapes, nested values and numbers', async () => {
  const path = await make('large', [
    ...['a', 'b', 'c'].map((key) => ({ key, type: 'text' })),
    { key: 'j', type: 'json' },
    { key: 'n', type: 'number' },
    { key: 'yes', type: 'boolean' },
    { key: 'none', type: 'text' },
  ]);
  const controls = String.fromCharCode(...Array.from({ length: 31 }, (_, i) => i + 1));
  const escaped = `${controls}"\\/\u007f\u2028ж😀`;
  const j = { text: escaped.repeat(2_000), '"}],{[': [1, -0.5, 1e21, 1e-7, null, true, { deep: [[], {}, ''] }], o: {} };
  const values = {
    a: escaped.repeat(2_000),
    b: `${'x'.repeat(9_000)}\\`,
    c: '"'.repeat(80_000),
    j,
    n: 1.5,
    yes: false,
  };
  for (const record of [values, { a: values.a }, { j }, { a: escaped, n: 7 }, { c: values.c, n: -1e21 }]) {
    expect((await tenant.post(path, record)).status).toBe(201);
  }
  const { items } = (await tenant.get(`${path}?sort=createdAt,id`)).body.data;
  expect(items).toHaveLength(5);
  const line = (record: Json): string => `${JSON.stringify(record)}\n`;
  expect((await tenant.get(`${path}/export?sort=createdAt,id`)).text).toBe(items.map(line).join(''));
  const some = items.map(({ id, entityId, a, n, createdAt, updatedAt, createdBy, updatedBy }: Json) =>
    line({ id, entityId, a, n, createdAt, updatedAt, createdBy, updatedBy }),
  );
  expect((await tenant.get(`${path}/export?sort=createdAt,id&fields=n,a`)).text).toBe(some.join(''));

  const guarded = [`''=${'x'.repeat(140_000)}`, "'".repeat(140_000), `\t${'😀ж'.repeat(30_000)}`];
  const plain = 'ж,'.repeat(30_000);
  guarded.push(plain.repeat(2), `${plain}"${plain}\n${plain}\\`, `"${plain}""${plain.slice(0, 100)}"${plain}`);
  for (const b of guarded) expect((await tenant.post(path, { b })).status).toBe(201);
  const csv = (await tenant.get(`${path}/export?sort=createdAt,id&format=csv`)).text;
  const records = parse(csv) as string[][];
  const column = (key: string): number => records[0]?.indexOf(key) ?? -1;
  const all = (await tenant.get(`${path}?sort=createdAt,id`)).body.data.items;
  expect(records).toHaveLength(1 + all.length);
  for (const [i, item] of all.entries()) {
    for (const [key, type] of Object.entries({ a: 'text', b: 'text', c: 'text', j: 'json', n: 'number' } as const)) {
      const cell = records[i + 1]?.[column(key)] ?? '';
      expect(cell).toBe(item[key] === null ? '' : FIELD_TYPES[type].cell.write(item[key]));
    }
  }
});

describe('memory', () => {
  test('the memory of an import or export does not grow with the number of records', async () => {
    const path = await make('many', [
      { key: 'code', type: 'text' },
      { key: 'n', type: 'integer' },
    ]);
    const count = process.env.DATABASE_URL ? 80_000 : 20_000;
    await upload(path, 5_000);
    await download(path);
    const before = process.memoryUsage().rss;
    let most = before;
    const timer = setInterval(() => {
      most = Math.max(most, process.memoryUsage().rss);
    }, 20);
    expect(await upload(path, count)).toMatchObject({ created: count, refused: 0 });
    expect(await download(path)).toBe(5_000 + count);
    clearInterval(timer);
    expect((most - before) / 1e6).toBeLessThan(200);
  });

  test('an export that the client aborts releases its connection', async () => {
    for (let round = 0; round < 5; round++) {
      const reader = await exporting('/api/entities/many/records/export');
      await reader.read();
      await reader.cancel();
    }
    const last = await exporting('/api/entities/many/records/export?filters=n=1&format=csv');
    expect(new TextDecoder().decode((await last.read()).value)).toStartWith('id,entityId,');
  });
});

/** Starts an export as soon as the tenant's limit allows: the service notices a disconnect with a delay. */
async function exporting(path: string): Promise<ReadableStreamDefaultReader<Uint8Array>> {
  for (;;) {
    const answer = await fetch(service.url + path, { headers: { 'x-api-key': tenant.key } });
    if (answer.status === 200) return (answer.body as ReadableStream<Uint8Array>).getReader();
    expect(answer.status, await answer.text()).toBe(429);
    await Bun.sleep(20);
  }
}

async function upload(path: string, count: number): Promise<Json> {
  let at = 0;
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      let text = '';
      for (let i = 0; i < 1_000 && at < count; i++, at++) text += `{"code":"code number ${at}","n":${at}}\n`;
      if (text !== '') controller.enqueue(new TextEncoder().encode(text));
      if (at >= count) controller.close();
    },
  });
  const answer = await fetch(`${service.url}${path}/import`, {
    method: 'POST',
    headers: { 'x-api-key': tenant.key, ...NDJSON },
    body,
  });
  return ((await answer.json()) as Json).data;
}

async function download(path: string): Promise<number> {
  const answer = await fetch(`${service.url}${path}/export?format=csv`, { headers: { 'x-api-key': tenant.key } });
  let lines = -1;
  for await (const chunk of answer.body as ReadableStream<Uint8Array>)
    for (const byte of chunk) if (byte === 10) lines += 1;
  return lines;
}

/** `search` covers every text field of a record. */
function hasWord({ iata, iso, title, continent, kind }: Airport, beginning: string): boolean {
  const text = [iata, iso, title ?? '', continent, kind].join(' ').normalize('NFKC').toLowerCase();
  return (text.match(/[\p{L}\p{N}\p{M}]+/gu) ?? []).some((word) => word.startsWith(beginning));
}

describe('lists and aggregates of the airports', () => {
  test('a list returns what the file contains', async () => {
    const filters = 'continent = "EU" AND status = 1 AND lat > "60" AND kind != "heliport"';
    const answer = await tenant.get(query(PORTS, { filters, sort: 'iso,-iata', limit: '100' }));
    const expected = rows
      .filter((row) => row.continent === 'EU' && row.status === 1 && Number(row.lat) > 60 && row.kind !== 'heliport')
      .sort((a, b) => (a.iso < b.iso ? -1 : a.iso > b.iso ? 1 : -byCode(a, b)));
    expect(answer.body.data.total).toBe(expected.length);
    expect(answer.body.data.items.map(own)).toEqual(expected.slice(0, 100));
  });

  test('aggregates match the file, groups sorted by their values', async () => {
    const metrics = 'count,sum:lat,avg:status,min:title,max:iata,count:lon';
    const answer = await tenant.get(query(`${PORTS}/aggregate`, { metrics, groupBy: 'continent,kind' }));
    const groups = Object.entries(Object.groupBy(rows, ({ continent, kind }) => JSON.stringify([continent, kind])));
    expect(answer.body.data.items).toHaveLength(groups.length);
    const sorted = groups.map(([key]) => JSON.parse(key)).sort((a, b) => (String(a) < String(b) ? -1 : 1));
    expect(answer.body.data.items.map(({ continent, kind }: Json) => [continent, kind])).toEqual(sorted);
    for (const item of answer.body.data.items) {
      const members = groups.find(([key]) => key === JSON.stringify([item.continent, item.kind]))?.[1] ?? [];
      const texts = members.map(({ title }) => title).filter((title) => title !== null);
      expect(item.count).toBe(members.length);
      expect(item.count_lon).toBe(members.filter(({ lon }) => lon !== null).length);
      expect(item.min_title).toBe(texts.sort((a, b) => (a < b ? -1 : 1))[0] ?? null);
      expect(item.max_iata).toBe(
        members
          .map(({ iata }) => iata)
          .sort()
          .at(-1),
      );
      expect(item.avg_status).toBeCloseTo(members.reduce((sum, { status }) => sum + status, 0) / members.length, 9);
      expect(item.sum_lat === null ? null : exact(item.sum_lat)).toBe(sumOf(members.map(({ lat }) => lat)));
    }
  });

  test('an aggregate covers the same records as a list with the same filters and search', async () => {
    const asked = { filters: 'iso = "US"', search: 'heliport' };
    const one = await tenant.get(query(`${PORTS}/aggregate`, asked));
    const expected = rows.filter((row) => row.iso === 'US' && hasWord(row, 'heliport')).length;
    expect(one.body.data.items).toEqual([{ count: expected }]);
    expect((await tenant.get(query(PORTS, asked))).body.data.total).toBe(expected);
  });
});

const SCALE = 12;

/** A decimal as an integer multiple of 10^-12. */
function exact(text: string): bigint {
  const [whole = '', fraction = ''] = text.split('.');
  return BigInt(whole + fraction.padEnd(SCALE, '0').slice(0, SCALE));
}

function sumOf(texts: readonly (string | null)[]): bigint | null {
  const given = texts.filter((text) => text !== null);
  return given.length === 0 ? null : given.reduce((sum, text) => sum + exact(text), 0n);
}

describe('the id of an import', () => {
  const eventsOf = (importId: string) =>
    service.app.db.rows<Json>(sql`
      select e.record_id, e.seq between i.first_seq and coalesce(i.last_seq, e.seq) as "isWithin", i.last_seq is null as "isOpen"
      from platform.imports as i
      left join platform.events as e on e.import_id = i.id and e.tenant_id = i.tenant_id
      where i.id = ${importId}::uuid
      order by e.seq`);

  test('is in its report, and finds the events of its records and no others', async () => {
    const path = await make('traced');
    const lines = (from: number) => Array.from({ length: 700 }, (_, i) => `{"iata":"t${from + i}"}\n`).join('');
    const [first, second, other] = await Promise.all([
      tenant.post(`${path}/import`, lines(0), NDJSON),
      tenant.post(`${path}/import`, lines(10_000), NDJSON),
      tenant.post(path, { iata: 'by hand' }),
    ]);
    const ids = [first, second].map(({ body }) => body.data.importId as string);
    expect(new Set(ids).size).toBe(2);
    const found = await Promise.all(ids.map(eventsOf));
    for (const events of found) {
      expect(events).toHaveLength(700);
      expect(events.filter(({ isWithin, isOpen }) => !isWithin || isOpen)).toEqual([]);
    }
    const records = new Set(found.flat().map(({ record_id }) => record_id));
    expect(records.size).toBe(1_400);
    expect(records.has(other.body.data.id)).toBe(false);
  });

  test('is named when the import ends early, with the number of kept records', async () => {
    const path = await make('cut');
    const body = new ReadableStream({
      start(controller) {
        const lines = Array.from({ length: 600 }, (_, i) => `{"iata":"c${i}"}\n`).join('');
        controller.enqueue(new TextEncoder().encode(`${lines}{"iata":"`));
        controller.enqueue(new TextEncoder().encode('x'.repeat(2_000_000)));
        controller.close();
      },
    });
    const answer = await tenant.post(`${path}/import`, body, NDJSON);
    expect(answer.body.data ?? answer.body.error).toBeDefined();
    const [, importId = answer.body.data?.importId] = /importId ([0-9a-f-]{36})/.exec(answer.text) ?? [];
    expect((await eventsOf(importId)).length).toBe(600);
  });
});
