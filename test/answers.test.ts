// The common parts of all responses: the envelope, the statuses and the request id. Contract: decisions#responses.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { attachRequestContext, hostOf } from '../src/access/request-context.ts';
import { startService, type TestService, type TestTenant } from './support/service.ts';

const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const PATH = '/api/entities/task/records';

let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService();
  tenant = await service.tenant();
  await tenant.post('/api/entities', { name: 'task', fields: [{ key: 'title', type: 'text' }] });
});
afterAll(async () => service.stop());

test('a valid X-Request-Id is used, otherwise one is generated; header and error.requestId return it', async () => {
  for (const given of ['my.request_1-A', 'x'.repeat(128)]) {
    const answer = await tenant.get('/api/entities/none', { 'x-request-id': given });
    expect([answer.headers.get('x-request-id'), answer.body.error.requestId]).toEqual([given, given]);
  }
  for (const given of ['two words', '{}', 'x'.repeat(129), undefined]) {
    const headers = given === undefined ? undefined : { 'x-request-id': given };
    const answer = await tenant.get('/api/entities/none', headers);
    expect(answer.headers.get('x-request-id')).toMatch(UUID_V7);
    expect(answer.body.error.requestId).toBe(answer.headers.get('x-request-id'));
  }
  expect((await tenant.get('/api/entities')).headers.get('x-request-id')).toMatch(UUID_V7);
});

test('a create answers 201, other operations 200; a delete answers the id; every answer has the envelope', async () => {
  const made = await tenant.post(PATH, { title: 'one' });
  expect([made.status, made.body.success]).toEqual([201, true]);
  const { id } = made.body.data;
  expect(id).toMatch(UUID_V7);
  for (const method of ['GET', 'PUT', 'PATCH']) {
    const answer = await tenant.request(method, `${PATH}/${id}`, method === 'GET' ? undefined : { title: 'two' });
    expect([method, answer.status, Object.keys(answer.body)]).toEqual([method, 200, ['success', 'data']]);
  }
  const gone = await tenant.delete(`${PATH}/${id}`);
  expect([gone.status, gone.body]).toEqual([200, { success: true, data: { id, deleted: true } }]);
});

test('errors use the envelope too, with a code, a message and the request id', async () => {
  const failures = [
    [await tenant.get('/nowhere'), 404, 'NOT_FOUND'],
    [await tenant.put(PATH, {}), 405, 'METHOD_NOT_ALLOWED'],
    [await tenant.post(PATH, { titel: 'x' }), 400, 'VALIDATION_ERROR'],
    [await service.anonymous.get(PATH), 401, 'UNAUTHORIZED'],
    [await service.anonymous.get('/metrics'), 401, 'UNAUTHORIZED'],
    [await tenant.get('/health/schema'), 403, 'FORBIDDEN'],
  ] as const;
  for (const [{ status, body, headers }, expected, code] of failures) {
    expect([status, body.success, body.error.code]).toEqual([expected, false, code]);
    expect(body.error.message).toBeString();
    expect(body.error.requestId).toBe(headers.get('x-request-id'));
  }
});

test('the client’s address is the right-most X-Forwarded-For entry that no trusted proxy added', () => {
  const through = (forwarded: string, proxies: number): string => {
    const request = new Request('http://service/', { headers: { 'x-forwarded-for': forwarded } });
    return attachRequestContext(request, 'the peer', proxies).address;
  };
  expect(through('made up, 192.0.2.1', 0)).toBe('the peer');
  expect(through('made up, 192.0.2.1', 1)).toBe('192.0.2.1');
  expect(through('made up, 192.0.2.1, 198.51.100.7', 2)).toBe('192.0.2.1');
  expect(through('192.0.2.1', 2)).toBe('192.0.2.1');
  expect(through('', 1)).toBe('the peer');
});

test('X-Forwarded-Host counts only if a proxy is trusted', () => {
  const headers = { host: 'inner:3000', 'x-forwarded-host': 'Data.Acme.test:443' };
  const request = new Request('http://service/', { headers });
  expect([hostOf(request, 0), hostOf(request, 1)]).toEqual(['inner', 'data.acme.test']);
});
