// The tenant schema as it should be: the objects that the migrations create, read from the catalog of
// a temporary schema, which is dropped in the same transaction. Cached by schema version and presence of
// pgvector. `completeSchema` adds the missing objects to a tenant's schema.
// Contract: interface#schema-health.
import { type App, perApp } from '../app.ts';
import { newId } from '../runtime/ids.ts';
import type { Transaction } from '../runtime/postgres.ts';
import { inSchema, readSchema, type SchemaObject } from '../runtime/schema-catalog.ts';
import { identifier, sql } from '../runtime/sql.ts';

const cacheOf = perApp(() => new Map<string, readonly SchemaObject[]>());

/** The objects of a tenant schema at this version; at version 0 no migration has run. */
export async function referenceSchema(app: App, tx: Transaction, version: number): Promise<readonly SchemaObject[]> {
  const hasVector = (await tx.first(sql`select from pg_extension where extname = 'vector'`)) !== undefined;
  const key = `${version} ${hasVector}`;
  const cache = cacheOf(app);
  const objects = cache.get(key) ?? (await buildReference(app, tx, version));
  cache.set(key, objects);
  return objects;
}

async function buildReference(app: App, tx: Transaction, version: number): Promise<readonly SchemaObject[]> {
  const schema = `reference_${newId().replaceAll('-', '')}`;
  const migrations = app.tenantSchema.migrations.slice(0, version);
  await tx.rows(sql`create schema ${identifier(schema)}`);
  await inSchema(tx, schema, () => tx.exec(migrations.map(({ text }) => text).join('\n;\n')));
  const objects = await readSchema(tx, schema);
  await tx.rows(sql`drop schema ${identifier(schema)} cascade`);
  return objects;
}

/** Creates the missing objects of a tenant's schema, and replaces indexes that differ. Nothing else is changed. */
export async function completeSchema(app: App, tx: Transaction, schema: string, version: number): Promise<void> {
  const reference = await referenceSchema(app, tx, version);
  await tx.rows(sql`create schema if not exists ${identifier(schema)}`);
  const present = new Map((await readSchema(tx, schema)).map((object) => [keyOf(object), object.ddl]));
  await inSchema(tx, schema, async () => {
    for (const object of reference) {
      const ddl = present.get(keyOf(object));
      const isColumnOfNewTable = object.kind === 'column' && !present.has(`table ${object.table} ${object.table}`);
      if (ddl === undefined ? isColumnOfNewTable : ddl === object.ddl || object.kind !== 'index') continue;
      await tx.exec(creationOf(object));
    }
  });
}

function keyOf({ kind, table, name }: SchemaObject): string {
  return `${kind} ${table} ${name}`;
}

function creationOf({ kind, name, ddl }: SchemaObject): string {
  // Rows may reference rows that were lost with their table: the constraint holds for new rows only.
  if (kind === 'foreign key') return `${ddl} not valid`;
  return kind === 'index' ? `drop index if exists "${name}"; ${ddl}` : ddl;
}
