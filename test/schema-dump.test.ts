// The schema dumps in sql/dump are what the migrations produce, on every supported Postgres. After a new
// migration, WRITE_SCHEMA_DUMPS=1 ./scripts/test test/schema-dump.test.ts writes them.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { readFile, writeFile } from 'node:fs/promises';
import { readSchema, type SchemaObject } from '../src/runtime/schema-catalog.ts';
import { referenceSchema } from '../src/tenants/reference.ts';
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
