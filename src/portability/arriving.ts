// A tenant that is being imported from a document. Its schema exists at once; its rows in the platform tables exist only from its
// last transaction on. Until then the tenant is invisible, and if its process dies, only one schema has to be dropped.
// Failures: 409 when the slug has been taken meanwhile, 503 when another process took this one for dead. Times are seconds.
// Contract: portability#import.
import { announceTenant, insertTenantRow } from '../admin/tenant-rows.ts';
import { changeDomain, storedSettings } from '../admin/tenant-settings.ts';
import type { App } from '../app.ts';
import { insertCounters } from '../entities/entities.ts';
import { conflict, unavailable } from '../errors.ts';
import { issueOwnerKey } from '../keys/owner-keys.ts';
import { identifier, join, type Sql, sql, type Tx } from '../runtime/sql.ts';
import { detached } from '../runtime/work.ts';
import { startWorker, type Worker } from '../runtime/worker.ts';
import { isDomainVerified, lockTenantNames } from '../tenants/custom-domains.ts';
import { liveProcesses } from '../tenants/live-processes.ts';
import { createTenantSchema, dropTenantSchema } from '../tenants/provision.ts';
import { isServiceHost, schemaOf, type Tenant, type TenantSettings, tenantById } from '../tenants/tenants.ts';

/** A tenant whose lease is not renewed for this long is dropped. Its process renews the lease at the interval below. */
const LEASE_S = 60;
const RENEW_MS = 10_000;
const POLL_MS = 30_000;
const DROPPED_AT_ONCE = 10;

const LEASE = sql`now() + make_interval(secs => ${LEASE_S}::int)`;

export interface Stored {
  records: number;
  /** Bytes of the values, as Postgres writes them. */
  bytes: number;
}

export type NewTenant = Pick<Tenant, 'id' | 'slug' | 'name' | 'settings'>;

export class ArrivingTenant {
  readonly #renewing: ReturnType<typeof setInterval>;

  private constructor(
    private readonly app: App,
    /** The tenant as it will be; only its id and its schema exist already. */
    readonly tenant: Tenant,
  ) {
    this.#renewing = setInterval(() => void this.#renew(), RENEW_MS);
    this.#renewing.unref?.();
  }

  static async begin(app: App, { id, slug, name, settings }: NewTenant): Promise<ArrivingTenant> {
    const schema = schemaOf(id);
    await app.db.slow.begin(async (tx) => {
      await tx.rows(sql`
        insert into platform.arriving_tenants (id, process_id, expires_at)
        values (${id}::uuid, ${app.db.id}::uuid, ${LEASE})`);
      await createTenantSchema(app, tx, id);
      // The future rows of the platform tables, by table; and the lines of records that refer to others.
      await tx.rows(sql`create table ${identifier(schema, ROWS)} (line int, destination text, content jsonb)`);
      await tx.rows(sql`create table ${identifier(schema, LINES)} (entity_id uuid, id uuid, line int)`);
    });
    const now = new Date().toISOString();
    const times = { createdAt: now, updatedAt: now };
    return new ArrivingTenant(app, {
      id,
      slug,
      name,
      settings,
      schema,
      status: 'active',
      quotas: {},
      domain: null,
      ...times,
    });
  }

  /** A table of the tenant's schema. */
  own(table: string): Sql {
    return identifier(this.tenant.schema, table);
  }

  /** The table that maps records with relations to their lines: `entity_id`, `id`, `line`. */
  get lines(): Sql {
    return this.own(LINES);
  }

  /** Stores a row of a platform table, by columns, until the import completes. */
  async keep(line: number, destination: Destination, content: Record<string, unknown>): Promise<void> {
    await this.app.db.slow.rows(sql`
      insert into ${this.own(ROWS)} (line, destination, content)
      values (${line}::int, ${destination}, ${JSON.stringify(content)}::text::jsonb)`);
  }

  /** Makes the tenant visible, with its first owner key. 409 if the slug is taken. */
  async complete(stored: ReadonlyMap<string, Stored>): Promise<{ tenant: Tenant; apiKey: string }> {
    const { app, tenant } = this;
    const { key, settings } = await app.db.slow.begin(async (tx) => {
      const own = await tx.first(sql`
        delete from platform.arriving_tenants where id = ${tenant.id}::uuid returning id`);
      if (own === undefined) throw unavailable('the service lost touch with its database; send the document again');
      const settings = await this.#insertTenant(tx);
      for (const [id, counted] of stored) await this.#count(tx, id, counted);
      for (const destination of DESTINATIONS) await this.#move(tx, destination);
      await this.#requireOwnIds(tx, [...stored.keys()]);
      const { key } = await issueOwnerKey(tx, tenant.id, { label: 'first key', createdBy: null });
      await tx.rows(sql`drop table ${this.own(ROWS)}, ${this.own(LINES)}`);
      return { key, settings };
    });
    clearInterval(this.#renewing);
    await announceTenant(app, { ...tenant, settings }, []);
    await Promise.all([app.invalidations.publish('catalog', tenant.id), app.invalidations.publish('role', tenant.id)]);
    return { tenant: (await tenantById(app, tenant.id)) ?? tenant, apiKey: key };
  }

  /** Drops everything. If the database cannot be reached, a worker does so later. */
  async discard(): Promise<void> {
    clearInterval(this.#renewing);
    try {
      await detached(() => dropArriving(this.app, this.tenant.id));
    } catch (cause) {
      this.app.log.warn('an incomplete tenant is dropped later', { tenantId: this.tenant.id, cause });
    }
  }

  /** Omits a custom domain that another tenant has verified or that belongs to the service. */
  async #insertTenant(tx: Tx): Promise<TenantSettings> {
    const { id, slug, name, settings: given } = this.tenant;
    await lockTenantNames(tx);
    const domain = given.customDomain?.toLowerCase() ?? null;
    const isFree = domain === null || (!isServiceHost(this.app, domain) && !(await isDomainVerified(tx, domain)));
    const settings = storedSettings(isFree ? given : { ...given, customDomain: null });
    await insertTenantRow(tx, { id, slug, name, settings });
    await tx.rows(sql`
      update platform.tenants set schema_version = ${this.app.tenantSchema.migrations.length}::int where id = ${id}::uuid`);
    await changeDomain(tx, { id, settings: {}, isVerified: false }, settings);
    return settings;
  }

  async #move(tx: Tx, destination: Destination): Promise<void> {
    const [id, ...others] = COLUMNS[destination].map((name) => identifier(name));
    const table = identifier('platform', destination);
    // Ids of subscriptions are unique in an installation, and differ from ids of entities, under which changes wait to be
    // judged. A replacement id sorts like the original.
    const ownId =
      destination === 'webhook_subscriptions'
        ? sql`case when row.id in (select id from ${table} union all select entity_id from platform.entity_counts)
            then (left(row.id::text, 19) || right(gen_random_uuid()::text, 17))::uuid else row.id end`
        : sql`row.id`;
    const rest = join(others, ', ');
    await tx.rows(sql`
      insert into ${table} (${id}, ${rest})
      select ${ownId}, ${rest} from ${this.own(ROWS)} as kept
      cross join lateral jsonb_populate_record(null::${table}, kept.content) as row
      where kept.destination = ${destination}
      order by kept.line`);
  }

  /**
   * 409 when an entity has the id of a subscription, which would get the changes that wait under the entity's id. Ids made by
   * the service are never equal.
   */
  async #requireOwnIds(tx: Tx, entityIds: readonly string[]): Promise<void> {
    const taken = await tx.first<{ id: string }>(sql`
      select id from platform.webhook_subscriptions where id = any(${[...entityIds]}::uuid[]) limit 1`);
    if (taken !== undefined) throw conflict(`an entity has the id of something else, ${taken.id}; use ids=new`);
  }

  async #count(tx: Tx, id: string, { records, bytes }: Stored): Promise<void> {
    await insertCounters(tx, { id, tenantId: this.tenant.id });
    await tx.rows(sql`
      update platform.entity_counts set n = ${records}::bigint, bytes = ${bytes}::bigint, v = 1
      where tenant_id = ${this.tenant.id}::uuid and entity_id = ${id}::uuid and slot = 0`);
  }

  /** A failed renewal is only logged: the next one follows. */
  async #renew(): Promise<void> {
    const renewal = sql`
      update platform.arriving_tenants set expires_at = ${LEASE} where id = ${this.tenant.id}::uuid`;
    await detached(() => this.app.db.slow.rows(renewal)).catch((cause: unknown) => {
      this.app.log.warn('an incomplete tenant could not be kept alive', { tenantId: this.tenant.id, cause });
    });
  }
}

const ROWS = 'arriving_rows';
const LINES = 'arriving_lines';

const TIMES = ['created_at', 'updated_at'] as const;
/** The columns that a document sets, by table. */
const COLUMNS = {
  views: ['id', 'tenant_id', 'slug', 'entity_id', 'name', 'description', 'filter_dsl', ...TIMES],
  apis: ['id', 'tenant_id', 'name', 'slug', 'roles', 'permissions', ...TIMES],
  webhook_subscriptions: [
    ...['id', 'tenant_id', 'entity_id', 'entity', 'event_types', 'url', 'description', 'is_active', 'role', 'filters'],
    ...['field_ids', 'include', ...TIMES],
  ],
} as const;
export type Destination = keyof typeof COLUMNS;
const DESTINATIONS = Object.keys(COLUMNS) as Destination[];

/** Starts the worker that drops tenants whose process has died. */
export function startDropping(app: App): Worker {
  return startWorker({ name: 'incomplete tenants', once: () => dropAbandoned(app), pollMs: POLL_MS, log: app.log });
}

/** Drops some of the tenants whose lease has expired or whose process is no longer connected. Resolves to their number. */
export async function dropAbandoned(app: App): Promise<number> {
  const alive = await liveProcesses(app);
  const isDead = alive.length > 0 ? sql`process_id <> all(${[...alive]}::uuid[])` : sql`false`;
  const found = await app.db.rows<{ id: string }>(sql`
    select id from platform.arriving_tenants where expires_at < now() or ${isDead}
    order by expires_at limit ${DROPPED_AT_ONCE}::int`);
  for (const { id } of found) await dropArriving(app, id);
  return found.length;
}

/** Waits for the tenant's last transaction; if that has committed, there is nothing to drop. */
async function dropArriving({ db }: App, id: string): Promise<void> {
  await db.slow.begin(async (tx) => {
    const found = await tx.first(sql`delete from platform.arriving_tenants where id = ${id}::uuid returning id`);
    if (found !== undefined) await dropTenantSchema(tx, id);
  });
}
