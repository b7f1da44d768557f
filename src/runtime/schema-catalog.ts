// The objects of a schema, read from Postgres's catalog: functions, tables, columns, constraints,
// indexes, triggers, each with the statement that creates it. The dumps in sql/dump, the health check
// and the repair of tenant schemas all use it. Names are unqualified. Omitted: partitions other than
// the default one, identity sequences, disabled triggers, invalid indexes.
import { readFileSync } from 'node:fs';
import { raw, sql, type Tx } from './sql.ts';

export interface SchemaObject {
  kind: 'function' | 'table' | 'column' | 'constraint' | 'foreign key' | 'index' | 'trigger' | 'sequence';
  table: string | null;
  name: string;
  /** Creates the object while `search_path` names the schema; for a table, with its columns. */
  ddl: string;
}

const SCHEMA_OBJECTS = raw(readFileSync(new URL('../../sql/query/schema-objects.sql', import.meta.url), 'utf8'));

/** The objects of a schema, which must exist; each comes after those it depends on. */
export async function readSchema(tx: Tx, schema: string): Promise<SchemaObject[]> {
  return inSchema(tx, schema, () => tx.rows<SchemaObject>(SCHEMA_OBJECTS));
}

/** Runs `work` with a `search_path` of the schema and `public`. */
export async function inSchema<T>(tx: Tx, schema: string, work: () => Promise<T>): Promise<T> {
  const setPath = (path: string): Promise<unknown[]> => tx.rows(sql`select set_config('search_path', ${path}, true)`);
  await setPath(`${schema}, public`);
  const result = await work();
  await setPath('public');
  return result;
}
