// The API document of a credential: the routes that it may use, with its tenant's own entities. Examples are sent, and every
// response is compared with the document.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import process from 'node:process';
import Ajv2020 from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { waitingIn } from '../src/runtime/concurrency.ts';
import { contractCheck } from './support/contract.ts';
import {
  addRole,
  bearer,
  botToken,
  invalidationsReceived,
  platformKey,
  publicKey,
  userToken,
} from './support/credentials.ts';
import { type Client, type Json, startService, type TestService, type TestTenant } from './support/service.ts';
import { measureStall, STALL_MAX_MS } from './support/stalls.ts';
import { runInSchema } from './support/tenant-database.ts';

let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService();
  tenant = await service.tenant();
  for (const entity of ENTITIES) expect((await tenant.post('/api/entities', entity)).status).toBe(201);
  expect((await tenant.post('/api/entities/countries/records', { code: 'DE' })).status).toBe(201);
}, 60_000);
afterAll(async () => service.stop());

const ENTITIES = [
  { name: 'countries', label: 'Countries', fields: [{ key: 'code', type: 'text', required: true, maxLength: 2 }] },
  {
    name: 'companies',
    description: 'Who buys from us',
    fields: [
      { key: 'title', type: 'text', label: 'Title', required: true, maxLength: 40, description: 'as in the register' },
      { key: 'code', type: 'text', required: true, unique: true, pattern: '^[A-Z]{2}-\\d{4,}$', maxLength: 12 },
      { key: 'posix', type: 'text', pattern: '^[[:alpha:]]+$' },
      { key: 'folded', type: 'text', pattern: '(?i)^ab+c$', minLength: 4 },
      { key: 'long', type: 'text', minLength: 30, maxLength: 60 },
      { key: 'tiny', type: 'text', maxLength: 1 },
      { key: 'mail', type: 'email', unique: true },
      { key: 'contact', type: 'email', required: true, unique: true },
      { key: 'site', type: 'url' },
      { key: 'number', type: 'uuid', required: true, unique: true },
      { key: 'employees', type: 'integer', min: 1, max: 500_000, required: true },
      { key: 'seat', type: 'integer', min: -5, max: -2, required: true },
      { key: 'rating', type: 'number', min: 0.25, max: 0.75 },
      { key: 'revenue', type: 'decimal', min: 0, required: true },
      { key: 'listed', type: 'boolean', required: true },
      { key: 'founded', type: 'date', required: true },
      { key: 'seen', type: 'datetime' },
      { key: 'stage', type: 'select', options: ['prospect', 'won'], default: 'prospect', required: true },
      { key: 'size', type: 'select', options: ['s', 'm'] },
      { key: 'tags', type: 'multiselect', options: ['a', 'b'], required: true },
      { key: 'extra', type: 'json' },
      { key: 'country', type: 'relation', entity: 'countries', required: true },
      { key: 'parents', type: 'relations', entity: 'companies' },
    ],
  },
  { name: 'empty', fields: [] },
  { name: '_odd__name_', fields: [{ key: 'n', type: 'integer' }] },
  { name: 'secrets', fields: [{ key: 'motto', type: 'select', options: ['never shown'] }] },
].map((entity) => (entity.name.startsWith('_') ? { ...entity, name: 'odd__name_' } : entity));

const documentOf = async (client: Client, query = ''): Promise<Json> => {
  const { status, body } = await client.get(`/swagger/json${query}`);
  expect([status, body.error]).toEqual([200, undefined]);
  return body;
};

/** Each operation of a document. */
const operationsOf = (document: Json): { method: string; path: string; operation: Json }[] =>
  Object.entries<Json>(document.paths).flatMap(([path, item]) =>
    Object.entries<Json>(item).map(([method, operation]) => ({ method: method.toUpperCase(), path, operation })),
  );

/** A client whose responses are compared with a document. */
async function call(document: Json, method: string, path: string, body?: unknown, type = 'application/json') {
  const response = await fetch(service.url + path, {
    method,
    headers: { 'x-api-key': tenant.key, ...(body === undefined ? {} : { 'content-type': type }) },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  const text = await response.text();
  const isJson = response.headers.get('content-type')?.startsWith('application/json') === true;
  const { status, headers } = response;
  const answer = { status, headers, body: isJson ? JSON.parse(text) : text };
  contractCheck(document)({ method, path, ...answer, ...(type === 'application/json' && body ? { sent: body } : {}) });
  return answer;
}

describe('the document of a credential', () => {
  test('has no example of a text that would be longer than the memory', async () => {
    const other = await service.tenant();
    const endless = { key: 'endless', type: 'text', minLength: 3_000_000_000 };
    const fields = [endless, { ...endless, key: 'needed', required: true }, { key: 'title', type: 'text' }];
    expect((await other.post('/api/entities', { name: 'texts', fields })).status).toBe(201);
    const document = await documentOf(other);
    expect(document.components.schemas.TextsCreate.properties.endless.minLength).toBe(3_000_000_000);
    expect(JSON.stringify(document)).not.toContain('endless --');
  });

  test('has the tenant’s entities as paths and types, with required and nullable fields', async () => {
    const document = await documentOf(tenant);
    expect(document.info.title).toContain(tenant.slug);
    expect(Object.keys(document.paths['/api/entities/companies/records'])).toEqual(['get', 'post']);
    expect(Object.keys(document.paths).filter((path) => path.includes('{entityName}/records'))).toEqual([]);
    const { CompaniesRecord, CompaniesCreate, CompaniesUpdate, OddName } = document.components.schemas;
    expect(OddName).toBeUndefined();
    expect(document.components.schemas.OddNameRecord).toBeDefined();
    expect(CompaniesCreate.required).toEqual(
      ENTITIES[1]?.fields
        .filter(({ required, default: fallback }: Json) => required && !fallback)
        .map(({ key }) => key),
    );
    expect(CompaniesUpdate.required).toBeUndefined();
    expect([CompaniesCreate.additionalProperties, CompaniesUpdate.additionalProperties]).toEqual([false, false]);
    expect(CompaniesRecord.required).toEqual(Object.keys(CompaniesRecord.properties));
    expect(CompaniesRecord.properties).toMatchObject({
      id: { type: 'string', format: 'uuid' },
      title: { title: 'Title', type: 'string', maxLength: 40, description: 'as in the register' },
      code: { type: 'string', pattern: '^[A-Z]{2}-\\d{4,}$' },
      posix: { type: ['string', 'null'], description: 'Matches the RE2 pattern ^[[:alpha:]]+$' },
      employees: { type: 'integer', minimum: 1, maximum: 500_000 },
      rating: { type: ['number', 'null'], minimum: 0.25, maximum: 0.75 },
      revenue: { type: 'string', description: 'An exact decimal number, at least 0.' },
      founded: { type: 'string', format: 'date' },
      seen: { type: ['string', 'null'], format: 'date-time' },
      stage: { type: 'string', enum: ['prospect', 'won'] },
      size: { type: ['string', 'null'], enum: ['s', 'm', null] },
      tags: { type: 'array', items: { type: 'string', enum: ['a', 'b'] } },
      country: {
        anyOf: [{ type: 'string', format: 'uuid' }, { $ref: '#/components/schemas/CountriesRecord' }],
        description: 'The id of one of the records of countries.',
      },
      createdBy: { type: ['string', 'null'] },
    });
    expect(CompaniesRecord.properties.posix.pattern).toBeUndefined();
    expect(CompaniesCreate.properties.revenue.type).toEqual(['string', 'number']);
    expect(CompaniesCreate.properties.stage).toMatchObject({ default: 'prospect' });
    const page =
      document.paths['/api/entities/companies/records'].get.responses[200].content['application/json'].schema;
    expect(page.properties.data.properties.items.items).toEqual({ $ref: '#/components/schemas/CompaniesRecord' });
    const ids = operationsOf(document).map(({ operation }) => operation.operationId);
    expect(ids.filter((id, at) => ids.indexOf(id) !== at)).toEqual([]);
  });

  test('every example of the entities’ requests is accepted when sent, in order, and responses match the document', async () => {
    const document = await documentOf(tenant);
    const ids = new Map<string, string>();
    const refused: string[] = [];
    let count = 0;
    const typed = operationsOf(document).filter(({ path }) => /\/api\/entities\/\w+\/records/.test(path));
    for (const { method, path, operation } of typed) {
      const collection = path.replace(/\/records.*/, '/records');
      for (const [type, { example }] of Object.entries<Json>(operation.requestBody?.content ?? {})) {
        // An entity without fields has no columns to import.
        if (path.includes('/empty/') && type === 'text/csv') continue;
        expect([path, type, example]).not.toEqual([path, type, undefined]);
        count += 1;
        const at = path.replace('{id}', ids.get(collection) ?? '');
        const { status, body } = await call(document, method, at, example, type);
        if (method === 'POST' && path === collection) ids.set(collection, body.data.id);
        const isRefused = ![200, 201].includes(status) || body.data.refused > 0;
        if (isRefused) refused.push(`${method} ${at} ${type}: ${JSON.stringify(body)} for ${JSON.stringify(example)}`);
      }
    }
    expect(refused).toEqual([]);
    expect(count).toBe(8 * (ENTITIES.length - 1) + 7);
    for (const { method, path, operation } of typed.filter(({ method }) => method === 'GET')) {
      const at = path.replace('{id}', ids.get(path.replace(/\/records.*/, '/records')) ?? '');
      expect([operation.operationId, (await call(document, method, at)).status]).toEqual([operation.operationId, 200]);
    }
    const list = '/api/entities/companies/records?resolve_depth=2&with=etags,nextCursor';
    const { body } = await call(document, 'GET', list);
    expect(body.data.items[0].country.code).toBe('DE');
  });

  test('refers to nothing that is not in it, and has no component that nothing refers to', async () => {
    const reader = await addRole(service, tenant, { permissions: { companies: ['read'], empty: ['delete'] } });
    const browser = bearer(service, await publicKey(service, tenant, reader.id));
    const key = bearer(
      service,
      await platformKey(service, tenant, reader.name, { companies: ['read'], empty: ['delete'] }),
    );
    const documents = [
      await documentOf(tenant),
      await documentOf(tenant, '?entity=companies'),
      await documentOf(browser),
      await documentOf(key),
      await documentOf(service.admin),
    ];
    for (const document of documents) {
      const { components } = document;
      const names = ['schemas', 'responses', 'parameters', 'headers'].flatMap((kind) =>
        Object.keys(components[kind]).map((name) => `#/components/${kind}/${name}`),
      );
      const used = new Set([...JSON.stringify(document).matchAll(/"\$ref":"([^"]+)"/g)].map(([, ref]) => ref));
      expect([...used].filter((ref) => !names.includes(ref as string))).toEqual([]);
      expect(names.filter((name) => !used.has(name))).toEqual([]);
      for (const { path, operation } of operationsOf(document)) {
        const shown = (operation.parameters ?? []).map(
          ({ $ref, name }: Json) => name ?? components.parameters[$ref.split('/').at(-1)].name,
        );
        for (const [, name] of path.matchAll(/\{(\w+)\}/g))
          expect([path, shown]).toEqual([path, expect.arrayContaining([name])]);
      }
    }
  });

  test('examples fit their schemas', async () => {
    const document = await documentOf(tenant);
    const ajv = new Ajv2020({ strict: false, allErrors: true });
    addFormats.default(ajv);
    ajv.addSchema({ $id: 'doc', ...document });
    for (const name of Object.keys(document.components.schemas)) {
      for (const example of document.components.schemas[name].examples ?? []) {
        const fits = ajv.validate({ $ref: `doc#/components/schemas/${name}` }, example);
        expect([name, fits, ajv.errorsText()]).toEqual([name, true, 'No errors']);
      }
    }
    expect(document.components.schemas.CompaniesRecord.examples).toHaveLength(1);
  });

  test('entity= narrows it; an entity that the credential may not use is not found, like an unknown one', async () => {
    const document = await documentOf(tenant, '?entity=companies,countries,companies');
    expect(Object.keys(document.components.schemas).filter((name) => name.endsWith('Create'))).toEqual([
      'CompaniesCreate',
      'CountriesCreate',
    ]);
    expect(document.paths['/api/tenant']).toBeDefined();
    const alone = await documentOf(tenant, '?entity=companies');
    expect(alone.components.schemas.CompaniesRecord.properties.country).toMatchObject({
      type: 'string',
      format: 'uuid',
    });
    const bot = bearer(service, await botToken(service, tenant, { companies: ['read'] }));
    for (const [client, name] of [
      [tenant, 'nothing'],
      [bot, 'secrets'],
      [bot, 'nothing'],
      [tenant, ''],
    ] as const) {
      const { status, body } = await client.get(`/swagger/json?entity=${name}`);
      expect([status, body.error.message]).toEqual([404, 'entity not found']);
    }
    expect((await service.anonymous.get('/swagger/json?entity=nothing&utm=1')).status).toBe(200);
  });

  test('nothing hidden from the caller is in it: no names, options, patterns, targets or ids', async () => {
    const role = await addRole(service, tenant, {
      permissions: { companies: ['read', 'create'], countries: ['create'] },
      entities: { companies: { excludeFields: ['code', 'stage', 'folded', 'employees'], rowFilter: 'title = "none"' } },
    });
    const clients = [
      bearer(service, await userToken(service, tenant, role.name)),
      tenant.with({ 'x-svc-as-role': role.name }),
    ];
    const [{ id = '' } = {}] = (await tenant.get('/api/entities/countries/records')).body.data.items;
    for (const client of clients) {
      const text = JSON.stringify(await documentOf(client));
      for (const hidden of ['secrets', 'never shown', 'motto', 'prospect', '[A-Z]{2}', '(?i)^ab', '500000', id]) {
        expect([hidden, text.includes(hidden)]).toEqual([hidden, false]);
      }
      const { components, paths } = JSON.parse(text);
      expect(Object.keys(components.schemas.CompaniesCreate.properties)).not.toContain('code');
      expect(components.schemas.CompaniesRecord.properties.country.description).toBe('The id of one of the records.');
      expect(Object.keys(paths['/api/entities/countries/records'])).toEqual(['post']);
      expect(paths['/api/entities/countries/records/export']).toBeUndefined();
      expect(paths['/api/keys']).toBeUndefined();
    }
  });

  test('has the routes that the kind of credential may call, and states that kind', async () => {
    const reader = await addRole(service, tenant, { permissions: { companies: ['read'] } });
    const browser = bearer(service, await publicKey(service, tenant, reader.id));
    const read = await documentOf(browser);
    const writes = operationsOf(read).filter(
      ({ method, operation }) => method !== 'GET' && operation.security?.length !== 0,
    );
    expect(writes.map(({ path }) => path)).toEqual(['/api/v1/tenants/{slug}/events/tickets']);
    expect(read.paths['/api/v1/tenants/{slug}/events/stream']).toBeUndefined();
    expect(read.paths['/api/views/{slug}/records']).toBeUndefined();
    expect(read.security).toEqual([{ bearer: [] }, { publicKey: [] }]);
    const key = await documentOf(
      bearer(service, await platformKey(service, tenant, reader.name, { companies: ['read'] })),
    );
    expect(key.paths['/api/v1/tenants/{slug}/events/stream']).toBeDefined();
    expect(key.paths['/agent-messages']).toBeUndefined();
    expect(key.paths['/api/auth/tenant/change-password']).toBeUndefined();
    const operator = await documentOf(service.admin);
    expect(operator.paths['/api/admin/platform/tenants']).toBeDefined();
    expect(operator.paths['/api/tenant']).toBeUndefined();
    expect(Object.keys(operator.components.schemas)).not.toContain('CompaniesRecord');
    const inTenant = await documentOf(service.admin.with({ 'x-tenant-id': tenant.slug }));
    expect(inTenant.components.schemas.CompaniesRecord).toBeDefined();
  });

  test('a wrong credential is a 401, and that of a suspended tenant a 403', async () => {
    expect((await bearer(service, 'svc_ak_wrong').get('/swagger/json')).status).toBe(401);
    const other = await service.tenant();
    expect((await other.with({ 'x-tenant-id': tenant.slug }).get('/swagger/json')).status).toBe(403);
    await service.admin.patch(`/api/admin/platform/tenants/${other.slug}`, { status: 'suspended' });
    expect((await other.get('/swagger/json')).status).toBe(403);
  });

  test('follows each change of definitions and rights at once', async () => {
    const other = await service.tenant();
    const role = await addRole(service, other, { permissions: { notes: ['read'] } });
    const user = bearer(service, await userToken(service, other, role.name));
    const keysFor = async (client: Client): Promise<string[]> =>
      Object.keys((await documentOf(client)).components.schemas.NotesRecord?.properties ?? {}).filter(
        (key) => key.length < 3,
      );
    expect(await keysFor(other)).toEqual([]);
    await other.post('/api/entities', { name: 'notes', fields: [{ key: 'a', type: 'text' }] });
    expect([await keysFor(other), await keysFor(user)]).toEqual([
      ['id', 'a'],
      ['id', 'a'],
    ]);
    await other.post('/api/entities/notes/fields', { key: 'b', type: 'text' });
    expect([await keysFor(other), await keysFor(user)]).toEqual([
      ['id', 'a', 'b'],
      ['id', 'a', 'b'],
    ]);
    await other.patch(`/api/roles/${role.name}`, { entities: { notes: { excludeFields: ['a'] } } });
    expect([await keysFor(other), await keysFor(user)]).toEqual([
      ['id', 'a', 'b'],
      ['id', 'b'],
    ]);
    await other.delete('/api/entities/notes');
    expect([await keysFor(other), await keysFor(user)]).toEqual([[], []]);
  });

  test('is not stored by caches, and compressed for clients that accept it', async () => {
    const headers = { 'x-api-key': tenant.key };
    const plain = await fetch(`${service.url}/swagger/json`, {
      headers: { ...headers, 'accept-encoding': 'identity' },
    });
    expect(plain.headers.get('cache-control')).toBe('no-store');
    expect(plain.headers.get('content-encoding')).toBeNull();
    const packed = await fetch(`${service.url}/swagger/json`, { headers: { ...headers, 'accept-encoding': 'gzip' } });
    expect(packed.headers.get('content-encoding')).toBe('gzip');
    expect(await packed.json()).toEqual(await plain.json());
  });
});

describe('a tenant with 500 entities of 60 fields', () => {
  test('gets its document, or an error that asks to name entities, without a stall', async () => {
    const full = await service.tenant();
    await runInSchema(
      service,
      full,
      `insert into entity_definitions (id, name, next_slot)
        select gen_random_uuid(), 'e' || i, 61 from generate_series(1, 500) as i;
      insert into field_definitions (id, entity_id, key, slot, type, position)
        select gen_random_uuid(), e.id, 'field_number_' || i, 'f' || i, (array['text', 'integer', 'boolean', 'date', 'json'])[1 + i % 5], i
        from entity_definitions as e, generate_series(1, 60) as i`,
    );
    await service.app.invalidations.publish('catalog', full.id);
    await invalidationsReceived(service, full.id);
    const get = (query = '') => fetch(`${service.url}/swagger/json${query}`, { headers: { 'x-api-key': full.key } });
    const { result, stallMs } = await measureStall(async () => {
      const whole = await get();
      const text = await whole.text();
      const some = await get('?entity=e1,e2,e3');
      const names = Array.from({ length: 150 }, (_, i) => `e${i + 1}`).join();
      const many = await Promise.all(Array.from({ length: 5 }, async () => (await get(`?entity=${names}`)).text()));
      return { status: whole.status, text, some: await some.json(), many };
    });
    // The client, which reads documents of megabytes, runs in this process too.
    expect(stallMs).toBeLessThan(2 * STALL_MAX_MS);
    expect(result.some.components.schemas.E3Update).toBeDefined();
    expect(new Set(result.many).size).toBe(1);
    // Different documents of one tenant are made a few at a time: the others wait, in the service's own process.
    const names = (first: number) => Array.from({ length: 60 }, (_, i) => `e${first + i}`).join();
    const different = Array.from({ length: 12 }, (_, i) => get(`?entity=${names(i + 1)}`));
    let waited = 0;
    const watch = setInterval(() => {
      waited = Math.max(waited, waitingIn('api-documents'));
    });
    expect((await Promise.all(different)).map(({ status }) => status)).toEqual(different.map(() => 200));
    clearInterval(watch);
    if (process.env.SERVICE_RUNTIME !== 'deno') expect(waited).toBeGreaterThan(0);
    if (result.status === 200) expect(result.text.length).toBeLessThanOrEqual(16_777_216);
    else
      expect([result.status, result.text]).toEqual([400, expect.stringContaining('16777216 bytes; name the entities')]);
  }, 120_000);
});
