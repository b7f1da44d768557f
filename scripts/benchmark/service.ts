// The service under test: started as a user starts it, set up through its REST API, with the same records as the bare handler.
// `items` is read, `items_w` is written. Rates are records per second.
// Fails with an ApiError when a call is refused.

import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { Api, ApiError } from './api.ts';
import { startServer } from './children.ts';
import type { Cleanup } from './cleanup.ts';
import { item, PEOPLE, person, SAMPLE, STATUSES } from './dataset.ts';

export interface ServiceEnv {
  ADMIN_SECRET: string;
  JWT_SECRET: string;
  PORT: '0';
  DEMO: '0';
  DATABASE_URL?: string;
  REDIS_URL?: string;
  DATA_DIR: string;
  /** How the runtime collects garbage. */
  BUN_JSC_forceRAMSize: string;
  BUN_JSC_concurrentGCMaxHeadroom: string;
}

/** As `scripts/start` sets them. */
const COLLECTOR = { BUN_JSC_forceRAMSize: '536870912', BUN_JSC_concurrentGCMaxHeadroom: '2.5' };

interface FilledTenant {
  key: string;
  people: string[];
  ids: Record<'items' | 'items_w', string[]>;
  /** Null when the service has no import. */
  importPerSecond: number | null;
}

/** The environment of a service with new secrets; without `urls` it uses the embedded database. */
export function serviceEnv(dataDir: string, urls?: { database: string; redis: string }): ServiceEnv {
  const secret = () => randomBytes(32).toString('hex');
  const settings = { PORT: '0', DEMO: '0', DATA_DIR: dataDir, ...COLLECTOR } as const;
  const own = { ADMIN_SECRET: secret(), JWT_SECRET: secret(), ...settings };
  return urls ? { ...own, DATABASE_URL: urls.database, REDIS_URL: urls.redis } : own;
}

/** Starts the service of this checkout, or of another one. */
export function startService(env: ServiceEnv, cleanup: Cleanup, checkout = '.') {
  return startServer(join(checkout, 'src/main.ts'), { ...env }, `${env.DATA_DIR}/service-${Date.now()}.log`, cleanup);
}

/** Creates a tenant; resolves to its owner key. */
export async function createTenant(port: number, adminSecret: string, slug: string): Promise<string> {
  const admin = new Api(port, { adminSecret });
  const body = { slug, name: `Bench ${slug}` };
  return (await admin.call<{ apiKey: string }>('POST', '/api/admin/platform/tenants', body)).apiKey;
}

/** Those that the rows `sort...` and `filterSorted` need, besides the indexes of single fields. */
const SORT_INDEXES = [['updatedAt'], ['status', 'amount'], ['status', 'due']].map((fields) => ({ fields }));

/**
 * An entity with the eight fields of the bench's records; `people` must exist. With `isSorted` it has indexes of several
 * fields, unless the service is too old to know them.
 */
export async function createItems(api: Api, name: string, isSorted = false): Promise<void> {
  const definition = {
    name,
    fields: [
      { key: 'title', type: 'text', required: true },
      { key: 'notes', type: 'text' },
      { key: 'status', type: 'select', options: STATUSES, indexed: true },
      { key: 'amount', type: 'integer', indexed: true },
      { key: 'price', type: 'number' },
      { key: 'active', type: 'boolean' },
      { key: 'due', type: 'date', indexed: true },
      { key: 'owner', type: 'relation', entity: 'people', onDelete: 'set_null' },
    ],
  };
  const create = (more: object) => api.call('POST', '/api/entities', { ...definition, ...more });
  if (!isSorted) return void (await create({}));
  await create({ indexes: SORT_INDEXES }).catch((error: unknown) => {
    if (!(error instanceof ApiError) || error.status !== 400) throw error;
    return create({});
  });
}

/** Creates the entity that items refer to, with its records; resolves to their ids. */
export async function createPeople(api: Api, count = PEOPLE): Promise<string[]> {
  const fields = [
    { key: 'fullName', type: 'text', required: true },
    { key: 'email', type: 'email' },
  ];
  await api.call('POST', '/api/entities', { name: 'people', fields });
  return api.createMany(
    'people',
    Array.from({ length: count }, (_, at) => person(at)),
  );
}

/** Imports items into `entity`; resolves to the seconds it took, null when the service has no import. */
export function importItems(
  api: Api,
  entity: string,
  records: number,
  people: readonly string[],
): Promise<number | null> {
  return api.importRecords(entity, records, (at) => item(at, records, people));
}

/** A tenant with the bench's entities and records. */
export async function fillService(port: number, adminSecret: string, records: number): Promise<FilledTenant> {
  const key = await createTenant(port, adminSecret, 'bench');
  const api = new Api(port, { key });
  const people = await createPeople(api);
  const ids: FilledTenant['ids'] = { items: [], items_w: [] };
  let seconds: number | null = 0;
  for (const entity of ['items', 'items_w'] as const) {
    await createItems(api, entity, entity === 'items');
    const spent = await importItems(api, entity, records, people);
    seconds = seconds === null || spent === null ? null : seconds + spent;
    ids[entity] = await api.sampleIds(entity, records, SAMPLE);
  }
  return { key, people, ids, importPerSecond: seconds && (2 * records) / seconds };
}
