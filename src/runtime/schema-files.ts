// The tenant schema as its SQL files say it, in the order of their numbers. Provisioning, upgrade and
// repair run the same text. What it requires is read from the text itself, so that a column added
// there is checked, and added to older schemas, without being named a second time.
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';

const DIRECTORY = new URL('../../sql/tenant/', import.meta.url);

/** The whole tenant schema. */
export interface TenantSchema {
  /** One idempotent script; it expects `search_path` to name the schema. */
  text: string;
  /** Stands for the text: schemas that carry another one are older, or newer. */
  digest: string;
  /** Every column the text makes, by table. */
  columns: ReadonlyMap<string, readonly string[]>;
}

export async function readTenantSchema(): Promise<TenantSchema> {
  const names = (await readdir(DIRECTORY)).filter((name) => name.endsWith('.sql')).sort();
  const texts = await Promise.all(names.map((name) => readFile(new URL(name, DIRECTORY), 'utf8')));
  const text = texts.join('\n');
  return { text, digest: createHash('sha256').update(text).digest('hex'), columns: columnsOf(text) };
}

const STATEMENT = /(?:create table if not exists|alter table) (\w+)([^;]*)/g;
const ADDED = /add column if not exists (\w+)/g;
const DECLARED = /^ {2}(?!constraint|primary|foreign|unique|check|add|alter|drop|enable)(\w+) /gm;

/** Columns of `create table` bodies, one a line, and of `add column if not exists`. */
function columnsOf(text: string): Map<string, string[]> {
  const columns = new Map<string, string[]>();
  for (const [statement, table = '', rest = ''] of text.matchAll(STATEMENT)) {
    const known = columns.get(table) ?? [];
    const found = statement.startsWith('create') ? rest.matchAll(DECLARED) : rest.matchAll(ADDED);
    columns.set(table, [...new Set([...known, ...[...found].map(([, name]) => name as string)])]);
  }
  return columns;
}
