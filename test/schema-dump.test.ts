// The schema dumps in sql/dump are what the migrations produce, on every supported Postgres. After a new migration,
// WRITE_SCHEMA_DUMPS=1 ./scripts/test test/schema-dump.test.ts writes them. The baseline of new tenants produces the same.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { readFile, writeFile } from 'node:fs/promises';
import type { App } from '../src/app.ts';
import { newId } from '../src/runtime/ids.ts';
import { readSchema, type SchemaObject } from '../src/runtime/schema-catalog.ts';
import { identifier, sql } from '../src/runtime/sql.ts';
import { createTenantSchema } from '../src/tenants/provision.ts';
import { referenceSchema } from '../src/tenants/reference.ts';
import { schemaOf } from '../src/tenants/tenants.ts';
import { type PrivatePostgres, privatePostgres } from './support/private-servers.ts';
import { startService, type TestService } from './support/service.ts';

let server: PrivatePostgres | undefined;
let service: TestService;
beforeAll(async () => {
  // The Postgres at DATABASE_URL may lack pgvector.
  if (process.env.DATABASE_URL) server = await privatePostgres({ extension: 'vector' });
  service = await startService({ DATABASE_URL: server?.url ?? '' });
});
afterAll(async () => {
  await service.stop();
  await server?.remove();
});

const EXPLANATION = 'what the migrations produce; generated, see test/schema-dump.test.ts. Names are unqualified.';

/** Functions, then each table with all that belongs to it, then sequences. Columns are part of their table. */
function dumpOf(schema: string, objects: readonly SchemaObject[]): string {
  const order = ({ kind, table }: SchemaObject): string => (kind === 'function' ? '' : (table ?? '~'));
  const sorted = objects
    .filter(({ kind }) => kind !== 'column')
    .toSorted((a, b) => (order(a) < order(b) ? -1 : order(a) > order(b) ? 1 : 0));
  return `-- The ${schema} schema: ${EXPLANATION}\n\n${sorted.map(({ ddl }) => `${ddl.trim()};\n`).join('\n')}`;
}

const DUMPS: Record<string, () => Promise<readonly SchemaObject[]>> = {
  platform: () => service.app.db.slow.begin((tx) => readSchema(tx, 'platform')),
  tenant: () =>
    service.app.db.slow.begin((tx) => referenceSchema(service.app, tx, service.app.tenantSchema.migrations.length)),
};

for (const [schema, read] of Object.entries(DUMPS)) {
  test(`sql/dump/${schema}.sql is what the migrations produce`, async () => {
    const file = new URL(`../sql/dump/${schema}.sql`, import.meta.url);
    // Postgres 18 has a function of this name, and qualifies ours.
    const dump = dumpOf(schema, await read()).replaceAll(' platform.uuidv7()', ' uuidv7()');
    if (process.env.WRITE_SCHEMA_DUMPS === '1') await writeFile(file, dump);
    expect(dump).toBe(await readFile(file, 'utf8'));
  });
}

test('a new tenant has exactly the objects that the migrations make, stored in the same way', async () => {
  const { baseline, ...schema } = service.app.tenantSchema;
  expect(baseline.version).toBeLessThanOrEqual(schema.migrations.length);
  const unused = { ...baseline, version: schema.migrations.length + 1 };
  const byMigrations = await provisioned({ ...service.app, tenantSchema: { ...schema, baseline: unused } });
  expect(byMigrations.length).toBeGreaterThan(100);
  expect(await provisioned(service.app)).toEqual(byMigrations);
});

/** What a new schema consists of, and how its columns are stored. */
async function provisioned(app: App): Promise<unknown[]> {
  const id = newId();
  const name = schemaOf(id);
  return app.db.slow.begin(async (tx) => {
    await createTenantSchema(app, tx, id);
    const objects = await readSchema(tx, name);
    const columns = await tx.rows(sql`
      select c.relname as table, a.attname as column, a.attstorage as storage, c.reltoastrelid <> 0 as "hasToast"
      from pg_attribute as a join pg_class as c on c.oid = a.attrelid
      where c.relnamespace = ${name}::regnamespace and c.relkind in ('r', 'p') and a.attnum > 0 and not a.attisdropped
      order by 1, 2`);
    await tx.rows(sql`drop schema ${identifier(name)} cascade`);
    return [...objects, ...columns];
  });
}
