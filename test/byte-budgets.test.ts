// Byte budgets: responses of at most 16 MiB, and imports, exports and bulk requests in bounded memory.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { LIMITS } from '../src/limits.ts';
import { createEntity, createRecord, fields } from './support/entities.ts';
import { type Json, startService, type TestService, type TestTenant } from './support/service.ts';
import { measureStall, STALL_MAX_MS } from './support/stalls.ts';

const { bytesMax } = LIMITS.response;
const LARGE = 900_000;

let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService();
});
afterAll(async () => service.stop());

/** An entity with records of 900 KB. */
async function largeRecords(count: number, name = 'files'): Promise<string> {
  const path = await createEntity(tenant, name, fields('title text', 'body text', 'n integer'));
  for (let n = 0; n < count; n++)
    await createRecord(tenant, path, { title: `file ${n}`, body: 'ж'.repeat(LARGE / 2), n });
  return path;
}

const refusalOf = (answer: { body: Json }): string => answer.body.error?.details?.[0]?.message ?? '';

describe('responses', () => {
  let path: string;
  beforeAll(async () => {
    tenant = await service.tenant();
    path = await largeRecords(20);
  });

  test('a list of up to 16 MiB is complete, one byte more is refused, and the refusal names limit and way out', async () => {
    const list = `${path}?limit=18&sort=n`;
    const { text, body } = await tenant.get(list);
    const room = bytesMax - Buffer.byteLength(text);
    expect(room).toBeGreaterThan(0);
    // The room is more than one record may still take.
    const filled: Json[] = body.data.items.slice(-8);
    const set = async (at: number, length: number): Promise<void> => {
      const answer = await tenant.patch(`${path}/${filled[at].id}`, { body: filled[at].body + 'x'.repeat(length) });
      expect(answer.status).toBe(200);
    };
    const share = Math.floor(room / 8);
    for (let at = 0; at < 8; at++) await set(at, at === 7 ? room - 7 * share : share);
    const { result: full, stallMs } = await measureStall(() => tenant.get(list));
    expect(stallMs).toBeLessThan(STALL_MAX_MS);
    expect([full.status, Buffer.byteLength(full.text)]).toEqual([200, bytesMax]);
    expect(full.body.data.items).toHaveLength(18);
    await set(0, share + 1);
    const refused = await tenant.get(list);
    expect([refused.status, refused.body.error.code]).toEqual([400, 'VALIDATION_ERROR']);
    expect(refusalOf(refused)).toMatch(/16777216 bytes; ask for fewer records, fields or relations/);
  }, 60_000);

  test('what a refused list would return can be read with a smaller limit, by cursor, or with fewer fields', async () => {
    expect((await tenant.get(`${path}?limit=100`)).status).toBe(400);
    const found: number[] = [];
    for (let cursor: string | null = ''; cursor !== null; ) {
      const { data }: Json = (await tenant.get(`${path}?limit=8&sort=n&cursor=${cursor}`)).body;
      found.push(...data.items.map(({ n }: Json) => n));
      cursor = data.nextCursor;
    }
    expect(found).toEqual(Array.from({ length: 20 }, (_, n) => n));
    const { data } = (await tenant.get(`${path}?limit=100&sort=n&fields=title,n`)).body;
    expect(data.items.map(({ title }: Json) => title)).toEqual(found.map((n) => `file ${n}`));
    expect(data.items[0]).not.toHaveProperty('body');
  }, 60_000);

  test('a relation to one large record counts at each occurrence', async () => {
    const target = (await tenant.get(`${path}?limit=1`)).body.data.items[0].id;
    const relations = Array.from({ length: 26 }, (_, i) => ({ key: `r${i}`, type: 'relation', entity: 'files' }));
    const links = await createEntity(tenant, 'links', relations);
    const values = Object.fromEntries(relations.map(({ key }) => [key, target]));
    const { id } = await createRecord(tenant, links, values);
    const ten = { ...values, ...Object.fromEntries(relations.slice(10).map(({ key }) => [key, null])) };
    const small = await createRecord(tenant, links, ten);
    for (const at of [links, `${links}/${id}`]) {
      const refused = await tenant.get(`${at}?resolve=true`);
      expect([at, refused.status]).toEqual([at, 400]);
      expect(refusalOf(refused)).toMatch(/fewer records, fields or relations/);
    }
    expect((await tenant.get(`${links}/${id}?resolve=true&fields=r1,r2`)).body.data.r2.id).toBe(target);
    const { result, stallMs } = await measureStall(() => tenant.get(`${links}/${small.id}?resolve_depth=2`));
    expect(result.body.data.r9.title).toBe(result.body.data.r0.title);
    expect(stallMs).toBeLessThan(STALL_MAX_MS);
  }, 60_000);

  test('groups with large keys are refused as a whole', async () => {
    const refused = await tenant.get(`${path}/aggregate?groupBy=body,title`);
    expect(refused.status).toBe(400);
    expect((await tenant.get(`${path}/aggregate?groupBy=title`)).body.data.items).toHaveLength(20);
  }, 60_000);

  test('the result of an MCP tool has the same limit, as text and structured content together', async () => {
    const query = async (input: object): Promise<Json> => {
      const params = { name: 'query_records', arguments: { entity_name: 'files', ...input } };
      const headers = { accept: 'application/json, text/event-stream', 'mcp-protocol-version': '2025-11-25' };
      const answer = await tenant.post('/mcp', { jsonrpc: '2.0', id: 1, method: 'tools/call', params }, headers);
      expect(Buffer.byteLength(answer.text)).toBeLessThanOrEqual(bytesMax + 1_000);
      return JSON.parse(answer.text.replace(/^[^{]*/, '')).result;
    };
    expect((await query({ limit: 18 })).isError).toBe(true);
    const { isError, content } = await query({ limit: 12 });
    expect([isError, content[0].text]).toEqual([true, expect.stringContaining('fewer records, fields or relations')]);
    expect((await query({ limit: 8 })).structuredContent.items).toHaveLength(8);
  }, 60_000);
});
