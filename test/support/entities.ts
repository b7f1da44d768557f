// Creates entities for tests over the API; throws when the service refuses.
import type { Client, Json, TestService, TestTenant } from './service.ts';

/** `key type` pairs as field definitions: `fields('title text', 'n integer')`. */
export function fields(...definitions: string[]): { key: string; type: string }[] {
  return definitions.map((definition) => {
    const [key = '', type = ''] = definition.split(' ');
    return { key, type };
  });
}

/** Creates an entity; resolves to the path of its records. */
export async function createEntity(client: Client, name: string, definitions: readonly object[] = []): Promise<string> {
  const answer = await client.post('/api/entities', { name, fields: definitions });
  if (answer.status !== 201) throw new Error(`no entity: ${answer.text}`);
  return `/api/entities/${name}/records`;
}

/** Creates a record under the path of its entity's records; resolves to the record. */
export async function createRecord(client: Client, path: string, values: object): Promise<Json> {
  const answer = await client.post(path, values);
  if (answer.status !== 201) throw new Error(`no record: ${answer.text}`);
  return answer.body.data;
}

/** A new tenant with entities that have the same fields. */
export async function tenantWithEntities(
  service: TestService,
  names: readonly string[],
  definitions: readonly object[],
): Promise<TestTenant> {
  const tenant = await service.tenant();
  for (const name of names) await createEntity(tenant, name, definitions);
  return tenant;
}

/** As a relation's target: the entity itself. */
export const SELF = 'the entity itself';
let created = 0;

/** Creates an entity with a unique name, and records in it. */
export async function newEntity(
  client: Client,
  definitions: readonly object[],
  records: readonly object[] = [],
): Promise<{ name: string; path: string }> {
  const name = `thing_${++created}`;
  const own = definitions.map((field) =>
    'entity' in field && field.entity === SELF ? { ...field, entity: name } : field,
  );
  const path = await createEntity(client, name, own);
  for (const record of records) await createRecord(client, path, record);
  return { name, path };
}

/** The deals and companies that tests of random roles use. */
export async function createDeals(tenant: TestTenant): Promise<void> {
  await createEntity(tenant, 'companies', [
    { key: 'label', type: 'text' },
    { key: 'country', type: 'text' },
  ]);
  await createEntity(tenant, 'deals', [
    { key: 'title', type: 'text' },
    { key: 'amount', type: 'integer' },
    { key: 'stage', type: 'text' },
    { key: 'secret', type: 'text' },
    { key: 'due', type: 'datetime' },
    { key: 'company', type: 'relation', entity: 'companies' },
  ]);
}
