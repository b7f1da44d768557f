// The keys of one kind: their schemas and columns, and the operations issue, list, change and revoke. Only the response
// to issuing a key contains its value; the table stores the hash, and a prefix for lists. A revoked key keeps its row;
// every process refuses it within a second. Failures: 404.
// Contract: decisions#keys, interface#credential-rules.
import { type Static, type TObject, type TProperties, type TString, Type } from '@sinclair/typebox';
import type { TenantCaller } from '../access/caller.ts';
import { CREDENTIAL_KINDS, type KeyKind } from '../access/credential-kinds.ts';
import type { App } from '../app.ts';
import { notFound } from '../errors.ts';
import { LastUsedAt, type Revoked, Timestamp, Uuid } from '../http/schemas.ts';
import { isUuid, newId } from '../runtime/ids.ts';
import { identifier, join, type Queries, type Sql, sql, type Tx } from '../runtime/sql.ts';
import { displayPrefix, newToken, sha256 } from '../runtime/tokens.ts';

/** A property that the lists of a tenant's keys have. */
export const LAST_USED = { lastUsedAt: LastUsedAt };

type Properties<P extends TProperties> = P & { id: typeof Uuid; keyPrefix: TString; createdAt: typeof Timestamp };

type Key<P extends TProperties> = Static<TObject<Properties<P>>>;
type Issued<P extends TProperties> = Static<TObject<Properties<P> & { key: TString }>>;

export class KeyTable<const P extends TProperties, const L extends TProperties = Record<never, never>> {
  /** A key as lists show it. */
  readonly schema: TObject<Properties<P & L>>;
  /** A new key with its value. */
  readonly issuedSchema: TObject<Properties<P> & { key: TString }>;
  readonly #prefix: string;
  readonly #table: Sql;

  /** `shown` are the properties of a key, stored in columns of the same names; `listed` are in lists only. */
  constructor(
    kind: KeyKind,
    readonly name: string,
    private readonly shown: P,
    private readonly listed: L = {} as L,
  ) {
    const { format, table } = CREDENTIAL_KINDS[kind];
    this.#prefix = format;
    this.#table = identifier('platform', table);
    const keyPrefix = Type.String({ examples: [`${format}0f3a9c1d2`] });
    const key = Type.String({ description: 'shown once', examples: [`${format}...`] });
    const common = { id: Uuid, keyPrefix, createdAt: Timestamp };
    this.schema = Type.Object({ ...common, ...shown, ...listed }, { $id: name });
    this.issuedSchema = Type.Object({ ...common, ...shown, key }, { $id: `Issued${name}` });
  }

  /** Issues a key with these values by column. They may refer to `source.from`; 404 for its `noun` if it has no row. */
  async issue(
    queries: Queries,
    values: Readonly<Record<string, Sql>>,
    source?: { from: Sql; noun: string },
  ): Promise<Issued<P>> {
    const key = newToken(this.#prefix);
    const all = {
      id: sql`${newId()}::uuid`,
      prefix: sql`${displayPrefix(key, this.#prefix)}`,
      hash: sql`decode(${sha256(key).toString('hex')}, 'hex')`,
      ...values,
    };
    const names = Object.keys(all).map((name) => identifier(name));
    const row = await queries.first<object>(sql`
      insert into ${this.#table} (${join(names, ', ')})
      select ${join(Object.values(all), ', ')} ${source?.from ?? sql``}
      returning ${columns(this.shown)}`);
    if (row === undefined) throw notFound(source?.noun ?? 'key');
    return { ...row, key } as unknown as Issued<P>;
  }

  /** The keys that meet the condition, newest first, without their values. */
  list(queries: Queries, condition: Sql): Promise<Key<P & L>[]> {
    return queries.rows(sql`
      select ${columns({ ...this.shown, ...this.listed })} from ${this.#table}
      where ${condition}
      order by id desc`);
  }

  /**
   * Changes the key with this id, if it meets the condition; `valuesOf` computes the new values from the current ones. The row
   * is locked meanwhile, so that of two concurrent changes each keeps the values that the other has changed. 404.
   */
  async update(
    app: App,
    condition: Sql,
    id: string,
    valuesOf: (tx: Tx, current: Key<P>) => Promise<Readonly<Record<string, Sql>>>,
  ): Promise<Key<P & L>> {
    if (!isUuid(id)) throw notFound('key');
    const own = sql`id = ${id}::uuid and ${condition}`;
    const row = await app.db.begin(async (tx) => {
      const current = await tx.first(sql`
        select ${columns(this.shown)} from ${this.#table} where ${own} for no key update`);
      if (current === undefined) throw notFound('key');
      const values = await valuesOf(tx, current as Key<P>);
      const assignments = Object.entries(values).map(([name, value]) => sql`${identifier(name)} = ${value}`);
      return tx.first<{ hash: string; tenant_id: string }>(sql`
        update ${this.#table} set ${join(assignments, ', ')}
        where ${own}
        returning ${columns({ ...this.shown, ...this.listed })}, encode(hash, 'hex') as hash, tenant_id`);
    });
    if (row === undefined) throw notFound('key');
    const { hash, tenant_id: tenantId, ...key } = row;
    await app.invalidations.publish('credential', hash, tenantId);
    return key as unknown as Key<P & L>;
  }

  async revoke(app: App, condition: Sql, id: string): Promise<Static<typeof Revoked>> {
    await this.update(app, condition, id, async () => ({ revoked_at: sql`now()` }));
    return { id: id.toLowerCase(), revoked: true };
  }
}

/** The columns of a key, under the names of its properties. */
function columns(properties: TProperties): Sql {
  const own = Object.keys(properties).map((name) => {
    const column = name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    return sql`${identifier(column)} as ${identifier(name)}`;
  });
  return join([sql`id, prefix as "keyPrefix", created_at as "createdAt"`, ...own], ', ');
}

/** The condition for a tenant's keys that are not revoked; they may have expired. */
export function keysOf({ tenant }: Pick<TenantCaller, 'tenant'>): Sql {
  return sql`tenant_id = ${tenant.id}::uuid and revoked_at is null`;
}
