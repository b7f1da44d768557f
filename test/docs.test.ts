// The API document and its page: complete, exact, compressed, and independent of other hosts.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { Type } from '@sinclair/typebox';
import Ajv2020 from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { createApi } from '../src/api.ts';
import { isOfConsole } from '../src/console/routes.ts';
import { buildDocument } from '../src/docs/document.ts';
import { route } from '../src/http/route.ts';
import { contractCheck } from './support/contract.ts';
import { type Json, startService, type TestService } from './support/service.ts';

let service: TestService;
let document: Json;
beforeAll(async () => {
  service = await startService();
  document = (await service.anonymous.get('/swagger/json')).body;
});
afterAll(async () => service.stop());

const METHODS = new Set(['get', 'post', 'put', 'patch', 'delete']);

/** Every operation, with its name for messages. */
function operations(): { name: string; path: string; operation: Json }[] {
  return Object.entries<Json>(document.paths).flatMap(([path, item]) =>
    Object.entries<Json>(item).map(([method, operation]) => ({ name: `${method} ${path}`, path, operation })),
  );
}

const namesWhere = (isWrong: (entry: { path: string; operation: Json }) => boolean): string[] =>
  operations()
    .filter(isWrong)
    .map(({ name }) => name);

/** Every media type of the document, references followed. */
function mediaTypes(): { at: string; media: Json }[] {
  const answers = Object.entries<Json>(document.components.responses).map(([name, answer]) => [name, answer] as const);
  const own = operations().flatMap(({ name, operation }) =>
    [operation.requestBody, ...Object.values<Json>(operation.responses)].map((part) => [name, part] as const),
  );
  const sent = Object.entries<Json>(document.webhooks).map(([name, { post }]) => [name, post.requestBody] as const);
  return [...answers, ...own, ...sent].flatMap(([at, part]) =>
    Object.values<Json>(part?.content ?? {}).map((media) => ({ at, media })),
  );
}

describe('the document', () => {
  test('is OpenAPI 3.1 at /swagger/json, without a credential', () => {
    expect(document.openapi).toBe('3.1.0');
    expect(document.servers).toEqual([{ url: service.url }]);
    expect(document.info.version).toBe(JSON.parse(readFileSync('package.json', 'utf8')).version);
  });

  test('has exactly the routes of the service, but for those of the console', () => {
    const routes = createApi(service.app)
      .routes.filter(({ path }) => !isOfConsole(path))
      .map(({ method, path }) => `${method.toLowerCase()} ${path.replace(/:(\w+)/g, '{$1}')}`)
      .filter((name) => !name.startsWith('options '));
    expect(
      operations()
        .map(({ name }) => name)
        .sort(),
    ).toEqual(routes.sort());
    expect(namesWhere(({ operation }) => operation === undefined)).toEqual([]);
    const methods = Object.values<Json>(document.paths).flatMap((item) => Object.keys(item));
    expect(methods.filter((method) => !METHODS.has(method))).toEqual([]);
  });

  test('every operation has a unique id, one described tag, a description, and states its credentials', () => {
    const ids = operations().map(({ operation }) => operation.operationId);
    expect(ids.filter((id, at) => ids.indexOf(id) !== at)).toEqual([]);
    expect(ids.filter((id) => !/^[a-z][a-zA-Z]+$/.test(id))).toEqual([]);
    const tags = document.tags.map(({ name }: Json) => name);
    expect(namesWhere(({ operation }) => !tags.includes(operation.tags[0]))).toEqual([]);
    expect(namesWhere(({ operation }) => !operation.summary || !operation.description)).toEqual([]);
    expect(namesWhere(({ operation }) => !Array.isArray(operation.security))).toEqual([]);
    const schemes = Object.keys(document.components.securitySchemes);
    expect(schemes).toEqual(['bearer', 'apiKey', 'publicKey', 'adminKey', 'adminSecret', 'ticket']);
    const { apiKey, bearer } = document.components.securitySchemes;
    expect(apiKey.description, 'X-API-Key takes owner keys alone').not.toMatch(/platform|public/);
    expect(bearer.description, 'Authorization takes all three').toMatch(/owner, platform or public key/);
    const used = operations().flatMap(({ operation }) => operation.security.flatMap(Object.keys));
    expect(used.filter((name) => !schemes.includes(name))).toEqual([]);
    const takesPublicKey = ({ operation }: { operation: Json }) =>
      operation.security.some((scheme: Json) => scheme.publicKey !== undefined);
    const writing = namesWhere(takesPublicKey).filter((name) => !name.startsWith('get '));
    expect(writing, 'public keys only read, and get tickets').toEqual(['post /api/v1/tenants/{slug}/events/tickets']);
    const byTicket = operations().filter(({ operation }) => operation.security.some((scheme: Json) => scheme.ticket));
    expect(byTicket.map(({ operation }) => [operation.operationId, operation.security.flatMap(Object.keys)])).toEqual([
      ['streamEvents', ['bearer', 'apiKey', 'ticket']],
    ]);
    const socket = document.paths['/ws'].get;
    expect([socket.security, Object.keys(socket.responses)]).toEqual([[], ['101', '400', '404', '500', '503']]);
  });

  test('every parameter is described', () => {
    const own = (operation: Json): Json[] =>
      (operation.parameters ?? []).filter(({ $ref }: Json) => $ref === undefined);
    expect(namesWhere(({ operation }) => own(operation).some(({ description }) => !description))).toEqual([]);
  });

  test('every operation states its errors: 500 and 503 always, 401, 403 and 429 with a credential, 400 and 413 with a body', () => {
    const lacks = (statuses: number[]) => (operation: Json) =>
      statuses.some((status) => operation.responses[status] === undefined);
    expect(namesWhere(({ operation }) => lacks([500, 503])(operation))).toEqual([]);
    const guarded = lacks([401, 403, 429]);
    expect(namesWhere(({ operation }) => operation.security.length > 0 && guarded(operation))).toEqual([]);
    const read = lacks([400, 413, 415]);
    expect(namesWhere(({ operation }) => operation.requestBody !== undefined && read(operation))).toEqual([]);
    expect(namesWhere(({ path, operation }) => path.includes('{') && lacks([404])(operation))).toEqual([]);
  });

  test('describes the webhooks: one per record event, with body and headers', () => {
    expect(Object.keys(document.webhooks)).toEqual(['record.created', 'record.updated', 'record.deleted']);
    for (const [event, { post }] of Object.entries<Json>(document.webhooks)) {
      const { schema, example } = post.requestBody.content['application/json'];
      expect(schema).toEqual({ $ref: '#/components/schemas/WebhookPayload' });
      expect(example.event).toBe(event);
      expect(post.parameters.map(({ name }: Json) => name)).toContain('X-Svc-Signature');
    }
  });

  test('every JSON request and answer has an example that fits its schema', () => {
    const ajv = new Ajv2020({ strict: false, allErrors: true });
    addFormats.default(ajv);
    ajv.addSchema({ $id: 'doc', ...document });
    const faults = mediaTypes()
      .filter(({ media }) => media.schema.type !== 'string')
      .filter(({ at }) => !at.includes('/swagger/json'))
      .flatMap(({ at, media }) => {
        const schema = JSON.parse(JSON.stringify(media.schema).replaceAll('"#/', '"doc#/'));
        const values = [media.example, ...Object.values<Json>(media.examples ?? {}).map(({ value }) => value)];
        const given = values.filter((value) => value !== undefined);
        if (given.length === 0) return [`${at}: no example`];
        return given
          .filter((value) => !ajv.validate(schema, value))
          .map((value) => `${at}: ${ajv.errorsText()} in ${JSON.stringify(value)}`);
      });
    expect(faults).toEqual([]);
  });

  test('a route without a description, or with an undescribed tag, is an error', async () => {
    const listed = (tag: string) => ({
      method: 'GET',
      path: '/x',
      hooks: route({ id: 'x', tag, summary: 'X', access: 'open', ok: [200, Type.Null()] }),
    });
    await expect(buildDocument([listed('Nonsense')], '1', 'http://x')).rejects.toThrow('Nonsense');
    await expect(buildDocument([{ method: 'GET', path: '/x', hooks: {} }], '1', 'http://x')).rejects.toThrow();
    expect(await buildDocument([listed('Records')], '1', 'http://x')).toMatchObject({ tags: [{ name: 'Records' }] });
  });

  test('it is made in pieces, between which the event loop serves others', async () => {
    const listed = Array.from({ length: 500 }, (_, i) => ({
      method: 'GET',
      path: `/x${i}`,
      hooks: route({ id: `x${i}`, tag: 'Records', summary: 'X', access: 'open', ok: [200, Type.Null()] }),
    }));
    let turns = 0;
    const count = (): void => {
      turns += 1;
      immediate = setImmediate(count);
    };
    let immediate = setImmediate(count);
    await buildDocument(listed, '1', 'http://x');
    clearImmediate(immediate);
    expect(turns).toBeGreaterThan(2);
  });

  test('the server is BASE_URL', async () => {
    const config = { ...service.app.config, baseUrl: 'https://data.acme.test' };
    const api = createApi({ ...service.app, config });
    const answer = await api.fetch(new Request('http://localhost/swagger/json'));
    expect(await answer.json()).toMatchObject({ servers: [{ url: 'https://data.acme.test' }] });
  });
});

describe('the examples', () => {
  const bodyOf = (operationId: string): Json =>
    operations().find(({ operation }) => operation.operationId === operationId)?.operation.requestBody.content[
      'application/json'
    ].example;

  test('of tenants, sessions and keys succeed when sent', async () => {
    const slug = `d${Date.now().toString(36)}`;
    const { settings, ...created } = bodyOf('createTenant');
    const { customDomainVerified, ...others } = settings;
    const own = { ...others, customDomain: `${slug}.test` };
    const tenants = '/api/admin/platform/tenants';
    const made = await service.admin.post(tenants, { ...created, slug, settings: { ...own, customDomainVerified } });
    expect(made.status).toBe(201);
    const owner = service.anonymous.with({ 'x-api-key': made.body.data.apiKey });
    expect((await owner.patch('/api/tenant', { ...bodyOf('updateTenant'), settings: own })).status).toBe(200);
    expect((await owner.get('/api/tenant')).body.data.slug).toBe(slug);
    const key = await owner.post('/api/keys', bodyOf('createOwnerKey'));
    expect(key.status).toBe(201);
    expect((await owner.delete(`/api/keys/${key.body.data.id}`)).status).toBe(200);
    const session = await service.admin.post('/api/admin/sessions', {
      ...bodyOf('createAdminSession'),
      tenantSlug: slug,
    });
    expect(session.status).toBe(201);
    const lent = service.anonymous.with({ authorization: `Bearer ${session.body.data.token}` });
    expect((await lent.get('/api/auth/whoami')).status).toBe(200);
    expect((await lent.delete('/api/admin/sessions/current')).status).toBe(200);
    const change = { ...bodyOf('updateTenantBySlug'), settings: own };
    expect((await service.admin.patch(`${tenants}/${slug}`, change)).status).toBe(200);
    expect((await service.admin.get(`${tenants}/${slug}`)).status).toBe(200);
    expect((await service.admin.delete(`${tenants}/${slug}?confirm=${slug}`)).status).toBe(200);
  });
});

describe('the check of every answer', () => {
  const observed = (change: Json): Json => ({
    method: 'GET',
    path: '/health',
    status: 200,
    headers: new Headers({ 'content-type': 'application/json; charset=utf-8', 'x-request-id': 'x' }),
    body: { success: true, data: { status: 'ok' } },
    ...change,
  });
  const error = { success: false, error: { code: 'NOT_FOUND', message: 'no such route', requestId: 'x' } };

  test('a documented answer passes, and so does the error for an unknown path or method', () => {
    const check = contractCheck(document);
    check(observed({}));
    check(observed({ path: '/nowhere', status: 404, body: error }));
    check(observed({ method: 'PUT', status: 405, body: error }));
  });

  test('an undocumented status, member, content type, header or shape fails the test', () => {
    const check = contractCheck(document);
    const html = new Headers({ 'content-type': 'text/html', 'x-request-id': 'x' });
    const unnamed = new Headers({ 'content-type': 'application/json' });
    const wrong = [
      observed({ status: 418 }),
      observed({ body: { success: true, data: { status: 'fine' } } }),
      observed({ body: { success: true, data: { status: 'ok', further: 1 } } }),
      observed({ body: { success: true } }),
      observed({ headers: html }),
      observed({ headers: unnamed }),
      observed({ path: '/nowhere' }),
      observed({ path: '/nowhere', status: 404, body: 'NOT_FOUND' }),
      observed({ method: 'PUT' }),
    ];
    for (const one of wrong) expect(() => check(one)).toThrow();
  });
});

describe('Swagger UI', () => {
  test('is served by the service, under a content security policy without inline scripts', async () => {
    const page = await service.anonymous.get('/swagger');
    expect(page.status).toBe(200);
    const policy = page.headers.get('content-security-policy') ?? '';
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("script-src 'self';");
    expect(policy).not.toContain('http');
    expect(page.text).not.toMatch(/https?:|<script>|<style|\son\w+=|\sstyle=/);
    const files = [...page.text.matchAll(/(?:src|href)="(\/swagger\/assets\/[^"]+)"/g)].map(
      ([, path]) => path as string,
    );
    expect(files).toHaveLength(4);
    for (const file of files) {
      const answer = await service.anonymous.get(file);
      expect(answer.status).toBe(200);
      expect(answer.headers.get('content-type')).toMatch(/^text\/(javascript|css)/);
      expect(answer.headers.get('x-content-type-options')).toBe('nosniff');
    }
  });

  test('large texts are gzipped for clients that accept it, and plain for others', async () => {
    for (const path of ['/swagger/json', '/swagger/assets/swagger-ui-bundle.js', '/swagger/assets/swagger-ui.css']) {
      const sizeOf = async (accepted: string): Promise<number> => {
        const headers = { 'accept-encoding': accepted };
        const answer = await fetch(service.url + path, { headers, decompress: false } as RequestInit);
        expect(answer.headers.get('vary')).toBe('Accept-Encoding');
        expect(answer.headers.get('content-encoding')).toBe(/^gzip$|br, gzip/.test(accepted) ? 'gzip' : null);
        return (await answer.arrayBuffer()).byteLength;
      };
      const plain = await sizeOf('identity');
      expect(await sizeOf('gzip;q=0')).toBe(plain);
      for (const accepted of ['gzip', 'deflate, br, gzip;q=0.5']) {
        expect(await sizeOf(accepted)).toBeLessThan(plain / 2);
      }
      expect((await (await fetch(service.url + path)).text()).length).toBeGreaterThan(plain / 2);
    }
  });

  test('other files of the package are not served', async () => {
    const names = [
      'index.html',
      'package.json',
      'swagger-ui.js',
      '..%2fpackage.json',
      '..%2F..%2Fpackage.json',
      'toString',
    ];
    for (const name of names) {
      const answer = await service.anonymous.get(`/swagger/assets/${name}`);
      expect(answer.status, name).toBe(404);
    }
  });
});
