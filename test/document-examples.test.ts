// The examples of the general API document, executed: the demo tenant accepts each as it is, except for ids and secrets.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { clientOf, type Json } from './support/service.ts';
import { endAll, START, startProcess } from './support/started.ts';

const SECRET = 'admin-secret-of-the-demo-test';
let dataDir: string;
let url: string;
let document: Json;
let ownerKey: string;
beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'svc-examples-'));
  const started = startProcess(START, { DATA_DIR: dataDir, DEMO: '1', ADMIN_SECRET: SECRET });
  url = await started.address;
  [, ownerKey = ''] = /owner key, shown only once: (\S+)/.exec(started.output) ?? [];
  document = await (await fetch(`${url}/swagger/json`)).json();
}, 120_000);
afterAll(async () => {
  await endAll();
  await rm(dataDir, { recursive: true, force: true });
});

interface Operation {
  method: string;
  path: string;
  operation: Json;
}

const operations = (): Operation[] =>
  Object.entries<Json>(document.paths).flatMap(([path, item]) =>
    Object.entries<Json>(item).map(([method, operation]) => ({ method: method.toUpperCase(), path, operation })),
  );

/** The resources that earlier examples have created, by the path of the collection. */
const made = new Map<string, Json>();

/** The path with the examples of its parameters, and the ids that earlier examples have made. */
function filled(path: string, { parameters = [] }: Json): string {
  const query = new URLSearchParams();
  let at = path;
  for (const parameter of parameters as Json[]) {
    const { name, in: where, example, schema } = parameter;
    const value = example ?? schema?.examples?.[0];
    if (where === 'query' && value !== undefined) query.set(name, String(value));
    if (where !== 'path') continue;
    const collection = at.slice(0, at.indexOf(`/{${name}}`));
    const madeThere = made.get(collection) ?? made.get(`${collection}/register`);
    at = at.replace(`{${name}}`, String(value ?? madeThere?.id ?? made.get(collection)?.token ?? NO_ID));
  }
  return query.size === 0 ? at : `${at}?${query}`;
}
const NO_ID = '01993b1c-7d50-7c51-9f2e-4a1b6c8d0e2f';

/** Operations that only users may call. */
const OF_USERS = ['changePassword', 'logout', 'refreshToken', 'listSessions', 'revokeSession'];

/** The credential that an operation asks for. */
async function headersFor({ operationId, security }: Json): Promise<Record<string, string>> {
  if (OF_USERS.includes(operationId)) return { authorization: `Bearer ${await userToken()}` };
  const schemes = new Set((security as Json[]).flatMap(Object.keys));
  if (schemes.size === 0) return { 'x-tenant-id': 'demo' };
  if (schemes.has('apiKey')) return { 'x-api-key': ownerKey };
  const adminKey = made.get('/api/admin/platform/keys')?.key;
  const needsBoth = (security as Json[]).some((one) => Object.keys(one).length === 2);
  return { 'x-admin-secret': SECRET, ...(needsBoth && adminKey ? { 'x-admin-key': adminKey } : {}) };
}

/** A new token of the user of the examples, whose password an example may have changed: that ends the tokens before. */
async function userToken(): Promise<string> {
  const exampleOf = (path: string): Json => document.paths[path].post.requestBody.content['application/json'].example;
  const { email, password } = exampleOf('/api/auth/tenant/login');
  const { newPassword } = exampleOf('/api/auth/tenant/change-password');
  const anonymous = clientOf(url, { 'x-tenant-id': 'demo' });
  for (const known of [password, newPassword]) {
    const { status, body } = await anonymous.post('/api/auth/tenant/login', { email, password: known });
    if (status === 200) return body.data.token;
  }
  throw new Error('the user of the examples cannot log in');
}

/** The body with the ids and secrets that no document can know. */
async function bodyFor({ operationId }: Json, body: Json): Promise<Json> {
  if (operationId === 'createPublicKey' || operationId === 'updatePublicKey') {
    const { body: role } = await clientOf(url, { 'x-api-key': ownerKey }).get('/api/roles/partner');
    return { ...body, roleId: role.data.id };
  }
  if (operationId === 'identifyBot') return { ...body, secret: made.get('/api/auth/bots/register').secret };
  if (operationId === 'resetPassword') return { ...body, token: await mailedToken() };
  if (operationId === 'acceptInvitation') return { ...body, token: made.get('/api/invitations').token };
  return body;
}

/** The token of the mail that the example of forgot-password has sent. */
async function mailedToken(): Promise<string> {
  const directory = join(dataDir, 'mail');
  for (;;) {
    for (const name of await readdir(directory).catch(() => [])) {
      const text = (await readFile(join(directory, name), 'utf8')).replaceAll(/=\r?\n/g, '').replaceAll('=3D', '=');
      const [, token] = /reset-password\?token=([\w-]+)/.exec(text) ?? [];
      if (token !== undefined) return token;
    }
    await Bun.sleep(20);
  }
}

test('every example of a request is accepted by the demo tenant, in the order of the document', async () => {
  const refused: string[] = [];
  let count = 0;
  for (const { method, path, operation } of operations()) {
    for (const [type, media] of Object.entries<Json>(operation.requestBody?.content ?? {})) {
      count += 1;
      expect([path, media.example]).not.toEqual([path, undefined]);
      const isJson = type === 'application/json';
      const body = isJson ? await bodyFor(operation, media.example) : media.example;
      const accept: Record<string, string> = path === '/mcp' ? { accept: 'application/json, text/event-stream' } : {};
      const headers = { ...(await headersFor(operation)), ...accept, 'content-type': type };
      const at = filled(path, operation);
      const answer = await clientOf(url, headers).request(method, at, body);
      if (![200, 201].includes(answer.status)) refused.push(`${method} ${at}: ${answer.status} ${answer.text}`);
      else if (typeof answer.body === 'object')
        made.set(method === 'POST' ? path.replace('{entityName}', 'companies') : path, answer.body.data);
    }
  }
  expect(refused).toEqual([]);
  expect(count).toBeGreaterThan(40);
}, 120_000);

test('every read with the examples of its parameters succeeds', async () => {
  const refused: string[] = [];
  for (const { method, path, operation } of operations()) {
    const isEndless = ['streamEvents', 'openWebSocket'].includes(operation.operationId);
    if (method !== 'GET' || isEndless || path.startsWith('/swagger/assets')) continue;
    const at = filled(path, operation);
    // An id that no example has made.
    const isUnknown = at.includes(NO_ID);
    const answer = await clientOf(url, await headersFor(operation)).get(at);
    if (answer.status !== 200 && !(isUnknown && answer.status === 404))
      refused.push(`${at}: ${answer.status} ${answer.text}`);
  }
  expect(refused).toEqual([]);
}, 120_000);
