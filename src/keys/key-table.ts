// The stored keys of one kind: issue, list, change, revoke. A value appears in the answer that issues it and
// nowhere else; the table holds its hash, and a prefix for lists. A revoked key keeps its row; every process
// refuses it within a second. Failures: 404. Contract: decisions#keys, interface#credential-rules.
import type { TenantCaller } from '../access/caller.ts';
import { CREDENTIAL_KINDS, type KeyKind } from '../access/credential-kinds.ts';
import type { App } from '../app.ts';
import { notFound } from '../errors.ts';
import { isUuid, newId } from '../runtime/ids.ts';
import { EMPTY, identifier, join, type Queries, type Sql, sql } from '../runtime/sql.ts';
import { displayPrefix, newToken, sha256 } from '../runtime/tokens.ts';

/** A key together with its value. */
export type Issued<Key> = Key & { key: string };

/** Runs a statement, in a transaction where more than the statement is needed. */
type Run = <T>(statement: (queries: Queries) => Promise<T>) => Promise<T>;

export class KeyTable<Key> {
  readonly #prefix: string;
  readonly #table: Sql;

  /** `columns` select a `Key`. */
  constructor(
    kind: KeyKind,
    private readonly columns: Sql,
  ) {
    const { format, table } = CREDENTIAL_KINDS[kind];
    this.#prefix = format;
    this.#table = identifier('platform', table);
  }

  /** Issues a key with these values by column; undefined when `source`, what the values are selected from, is empty. */
  async issue(
    queries: Queries,
    values: Readonly<Record<string, Sql>>,
    source = EMPTY,
  ): Promise<Issued<Key> | undefined> {
    const key = newToken(this.#prefix);
    const all = {
      id: sql`${newId()}::uuid`,
      prefix: sql`${displayPrefix(key, this.#prefix)}`,
      hash: sql`decode(${sha256(key).toString('hex')}, 'hex')`,
      ...values,
    };
    const names = Object.keys(all).map((name) => identifier(name));
    const row = await queries.first<Key>(sql`
      insert into ${this.#table} (${join(names, ', ')})
      select ${join(Object.values(all), ', ')} ${source}
      returning ${this.columns}`);
    return row === undefined ? undefined : { ...row, key };
  }

  /** The keys that meet the condition, newest first, without their values. */
  list(queries: Queries, condition: Sql): Promise<Key[]> {
    return queries.rows<Key>(sql`select ${this.columns} from ${this.#table} where ${condition} order by id desc`);
  }

  /** The key with this id, if it meets the condition. 404. */
  async find(app: App, condition: Sql, id: string): Promise<Key> {
    const [key] = isUuid(id) ? await this.list(app.db, sql`id = ${id}::uuid and ${condition}`) : [];
    if (key === undefined) throw notFound('key');
    return key;
  }

  /** Changes the key with this id, if it meets the condition, on every process within a second. 404. */
  async update(
    app: App,
    condition: Sql,
    id: string,
    assignments: Sql,
    run: Run = (statement) => statement(app.db),
  ): Promise<Key> {
    if (!isUuid(id)) throw notFound('key');
    const row = await run((queries) =>
      queries.first<Key & { hash: string }>(sql`
        update ${this.#table} set ${assignments}
        where id = ${id}::uuid and ${condition}
        returning ${this.columns}, encode(hash, 'hex') as hash`),
    );
    if (row === undefined) throw notFound('key');
    const { hash, ...key } = row;
    await app.invalidations.publish('credential', hash);
    return key as Key;
  }

  async revoke(app: App, condition: Sql, id: string): Promise<void> {
    await this.update(app, condition, id, sql`revoked_at = now()`);
  }
}

/** The condition of a tenant's keys that are not revoked; expired ones are among them. */
export function keysOf({ tenant }: Pick<TenantCaller, 'tenant'>): Sql {
  return sql`tenant_id = ${tenant.id}::uuid and revoked_at is null`;
}
