// Retention. Events and deliveries are kept EVENT_RETENTION_DAYS, or a tenant's shorter setting; ended keys as long as events,
// whose actors they are; read messages, ended invitations and password resets 30 days from then; responses under an
// Idempotency-Key, counts of rule chains and of slow lists 24 hours; usage 400 days; sessions and tickets until they expire.
// Revoked bots stay, most without their permissions. Events are partitioned by UTC day, and partitions are added some days
// ahead. Events of a day without a partition go to the default partition, from which they are deleted by age. An advisory lock
// lets only one process change partitions. The worker also builds the indexes by record that partitions lack
// (record-indexes.ts).
// Contract: decisions#retention.
import type { App } from '../app.ts';
import { LIMITS } from '../limits.ts';
import { lowestIdAt } from '../runtime/ids.ts';
import { limitLockWaits } from '../runtime/locks.ts';
import type { Transaction } from '../runtime/postgres.ts';
import { GENERIC_PLANS, identifier, literal, type Sql, sql } from '../runtime/sql.ts';
import { forTenant } from '../runtime/work.ts';
import { startWorker, type Worker } from '../runtime/worker.ts';
import { keptSince, TENANT_COLUMNS, type TenantRow } from '../tenants/tenants.ts';
import { utcDay } from '../usage/usage-writer.ts';
import { buildRecordIndexes, newPartitionIndexes } from './record-indexes.ts';

const DAY_MS = 86_400_000;
const POLL_MS = 10 * 60_000;
/** Rows deleted by one statement. */
const BATCH_ROWS = 1_000;
/** Stored permissions of more bytes than this are emptied; smaller ones are not worth an update. */
const EMPTY_BYTES = 100;
/** The longest wait for a lock on the table; the next round repeats a change that exceeds it. */
const LOCK_TIMEOUT_MS = 1_000;

export function startRetention(app: App): Worker {
  const once = async (signal: AbortSignal): Promise<number> => {
    const done = await cleanUpOnce(app, signal);
    return done + (await buildRecordIndexes(app, signal));
  };
  return startWorker({ name: 'retention', once, pollMs: POLL_MS, log: app.log });
}

/** One round; resolves to the number of partitions added or dropped and rows deleted. `now` defaults to the database's. */
export async function cleanUpOnce(app: App, signal: AbortSignal, now?: Date): Promise<number> {
  const at = now ?? (await databaseTime(app));
  let done = await ensurePartitions(app, at);
  done += await dropOldPartitions(app, at);
  for (const statement of expired(at, app.config.eventRetentionDays)) {
    if (signal.aborted) break;
    done += (await app.db.slow.rows(statement)).length;
  }
  return done + (await cleanUpTenants(app, signal, at));
}

/**
 * Deletes a batch of the expired events and deliveries of each tenant that keeps them for a shorter time than the service does.
 */
async function cleanUpTenants(app: App, signal: AbortSignal, now: Date): Promise<number> {
  const tenants = await app.db.slow.rows<TenantRow>(sql`
    select ${TENANT_COLUMNS} from platform.tenants
    where jsonb_typeof(settings -> 'eventRetentionDays') = 'number'
      and (settings ->> 'eventRetentionDays')::int < ${app.config.eventRetentionDays}::int`);
  let done = 0;
  for (const tenant of tenants) {
    if (signal.aborted) break;
    const oldest = new Date(keptSince(app, tenant, now.getTime())).toISOString();
    try {
      for (const statement of expiredOf(tenant.id, oldest)) {
        done += await forTenant(tenant.id, () => deleteInOrder(app, statement));
      }
    } catch (error) {
      // The other tenants get their turns nevertheless, and this one again in the next round.
      app.log.error("a tenant's expired events were not deleted", { tenant: tenant.slug, error });
    }
  }
  return done;
}

/**
 * Uses the index of the order, whatever Postgres estimates: sorting all remaining rows for each batch would take quadratic
 * time.
 */
async function deleteInOrder(app: App, statement: Sql): Promise<number> {
  return app.db.slow.begin(async (tx) => {
    await tx.rows(sql`select ${GENERIC_PLANS}`);
    return (await tx.rows(statement)).length;
  });
}

function expiredOf(tenantId: string, oldest: string): Sql[] {
  const isOld = sql`e.tenant_id = ${tenantId}::uuid and e.at < ${oldest}::timestamptz`;
  return [
    sql`
      delete from platform.events as e
      where ${isOld} and e.seq = any(array(
        select e.seq from platform.events as e where ${isOld} order by e.seq limit ${BATCH_ROWS}::int))
      returning 1`,
    sql`
      delete from platform.webhook_deliveries as d
      using (
        select o.subscription_id, o.id from platform.webhook_subscriptions as s
        cross join lateral (
          select w.subscription_id, w.id from platform.webhook_deliveries as w
          where w.subscription_id = s.id and w.tenant_id = s.tenant_id and w.id < ${lowestIdAt(oldest)}::uuid
          order by w.id limit ${BATCH_ROWS}::int
        ) as o
        where s.tenant_id = ${tenantId}::uuid
        limit ${BATCH_ROWS}::int
      ) as o
      where d.subscription_id = o.subscription_id and d.tenant_id = ${tenantId}::uuid and d.id = o.id
      returning 1`,
  ];
}

async function databaseTime(app: App): Promise<Date> {
  const row = await app.db.first<{ at: string }>(sql`select now() as at`);
  return new Date(row?.at ?? Date.now());
}

/** Adds the missing partitions of today and the days ahead. Resolves to the number added. */
export async function ensurePartitions(app: App, now?: Date): Promise<number> {
  const today = startOfDay(now ?? (await databaseTime(app)));
  const existing = await dayPartitions(app);
  let added = 0;
  for (let ahead = 0; ahead <= LIMITS.events.partitionsAheadDays; ahead++) {
    const day = new Date(today + ahead * DAY_MS);
    if (!existing.includes(nameOf(day)) && (await addPartition(app, day))) added++;
  }
  return added;
}

/** Adds a day's partition. False when it exists, or when the default partition has events of that day. */
async function addPartition(app: App, day: Date): Promise<boolean> {
  const from = day.toISOString();
  const to = new Date(day.getTime() + DAY_MS).toISOString();
  const table = identifier('platform', nameOf(day));
  return withPartitionLock(app, async (tx) => {
    // Attaching needs this lock. It is taken first, so that no events of that day enter the default partition meanwhile.
    await tx.rows(sql`lock table platform.events_default in access exclusive mode`);
    const known = await tx.first<{ is_known: boolean }>(sql`
      select to_regclass(${`platform.${nameOf(day)}`}) is not null
        or exists (select from platform.events_default where at >= ${from}::timestamptz and at < ${to}::timestamptz)
        as is_known`);
    if (known?.is_known === true) return false;
    // Created and then attached: `create table ... partition of` would block every writer of events.
    await tx.rows(sql`create table ${table} (like platform.events including all)`);
    for (const index of newPartitionIndexes(nameOf(day))) await tx.rows(index);
    await tx.rows(sql`
      alter table platform.events attach partition ${table} for values from (${literal(from)}) to (${literal(to)})`);
    return true;
  });
}

/** Locks of a statement that reads events, for each day that is kept: the partition and its indexes. */
const LOCKS_PER_DAY = 6;
/** Statements that may read events at once, of all processes. */
const READERS = 10;

/**
 * Warns when PostgreSQL has too few locks for so many days: a statement that reads the events of a record locks the partitions of all
 * of them. When the locks are used up, statements of all tenants fail.
 */
export async function warnOfFewLocks({ db, config, log }: App): Promise<void> {
  const needed = config.eventRetentionDays * LOCKS_PER_DAY * READERS;
  const found = await db.first<{ own: number; connections: number }>(sql`
    select current_setting('max_locks_per_transaction')::int as own, current_setting('max_connections')::int as connections`);
  if (found === undefined || found.own * found.connections >= needed) return;
  const wanted = Math.ceil(needed / found.connections);
  log.warn(
    `EVENT_RETENTION_DAYS=${config.eventRetentionDays} needs more locks than this PostgreSQL has: ` +
      `set max_locks_per_transaction to ${wanted} or more, or keep events for fewer days`,
  );
}

async function dropOldPartitions(app: App, now: Date): Promise<number> {
  const keptDays = app.config.eventRetentionDays;
  const oldest = nameOf(new Date(startOfDay(now) - keptDays * DAY_MS));
  const old = (await dayPartitions(app)).filter((name) => name < oldest);
  for (const name of old) {
    await withPartitionLock(app, (tx) => tx.rows(sql`drop table if exists ${identifier('platform', name)}`));
    app.log.info('expired events dropped', { partition: name });
  }
  return old.length;
}

function withPartitionLock<T>(app: App, change: (tx: Transaction) => Promise<T>): Promise<T> {
  return app.db.slow.begin(async (tx) => {
    await tx.rows(sql`select pg_advisory_xact_lock(hashtext('platform.events partitions'))`);
    await limitLockWaits(tx, LOCK_TIMEOUT_MS);
    return change(tx);
  });
}

/** The names of the partitions, in the order of their days. */
async function dayPartitions(app: App): Promise<string[]> {
  const rows = await app.db.rows<{ name: string }>(sql`
    select c.relname::text as name
    from pg_inherits as i
    join pg_class as c on c.oid = i.inhrelid
    where i.inhparent = 'platform.events'::regclass and c.relname ~ '^events_[0-9]{8}$'
    order by name`);
  return rows.map(({ name }) => name);
}

function startOfDay(time: Date): number {
  return Math.floor(time.getTime() / DAY_MS) * DAY_MS;
}

function nameOf(day: Date): string {
  return `events_${day.toISOString().slice(0, 10).replaceAll('-', '')}`;
}

/** The deletions of a round. The worker runs rounds until nothing is left. */
function expired(now: Date, keptDays: number): Sql[] {
  const before = (ms: number): string => new Date(now.getTime() - ms).toISOString();
  const oldest = new Date(startOfDay(now) - keptDays * DAY_MS).toISOString();
  const oldestDay = utcDay(now.getTime() - (LIMITS.usage.keptDays - 1) * DAY_MS);
  return [
    deletion(sql`platform.events_default`, sql`at < ${oldest}::timestamptz`),
    deletion(sql`platform.idempotency_keys`, sql`created_at < ${before(LIMITS.idempotency.keptMs)}::timestamptz`),
    deletion(sql`platform.webhook_deliveries`, sql`id < ${lowestIdAt(oldest)}::uuid`),
    deletion(sql`platform.imports`, sql`id < ${lowestIdAt(oldest)}::uuid`),
    deletion(sql`platform.rule_chains`, sql`updated_at < ${before(DAY_MS)}::timestamptz`),
    deletion(sql`platform.usage_days`, sql`day < ${oldestDay}::date`),
    deletion(sql`platform.slow_lists`, sql`hour <= ${before(LIMITS.advice.keptHours * 3_600_000)}::timestamptz`),
    deletion(sql`platform.quota_warnings`, sql`day < ${before(DAY_MS)}::date`),
    deletion(sql`platform.messages`, sql`read_at < ${before(LIMITS.message.keptDays * DAY_MS)}::timestamptz`),
    deletion(
      sql`platform.invitations`,
      sql`coalesce(revoked_at, accepted_at, expires_at) < ${before(LIMITS.invitation.keptDays * DAY_MS)}::timestamptz`,
    ),
    deletion(
      sql`platform.password_resets`,
      sql`expires_at < ${before(LIMITS.passwordReset.keptDays * DAY_MS)}::timestamptz`,
    ),
    // Except the tenant's first one, which its limit does not count.
    deletion(
      sql`platform.owner_keys`,
      sql`least(revoked_at, expires_at) < ${oldest}::timestamptz and exists (
        select from platform.owner_keys as o where o.tenant_id = owner_keys.tenant_id and o.id < owner_keys.id)`,
    ),
    deletion(sql`platform.platform_keys`, sql`least(revoked_at, expires_at) < ${oldest}::timestamptz`),
    // Expired keys stay, since they may be renewed. There are few of them: each was valid for a day at least.
    deletion(sql`platform.public_keys`, sql`revoked_at < ${oldest}::timestamptz`),
    deletion(sql`platform.admin_sessions`, sql`expires_at < ${before(0)}::timestamptz`),
    deletion(sql`platform.user_sessions`, sql`expires_at < ${before(0)}::timestamptz`),
    deletion(
      sql`platform.mcp_sessions`,
      sql`created_at < ${before(LIMITS.mcpSession.ttlHours * 3_600_000)}::timestamptz`,
    ),
    deletion(sql`platform.stream_tickets`, sql`expires_at < ${before(0)}::timestamptz`),
    emptiedBots(before(LIMITS.bot.ttlS * 1_000)),
  ];
}

/**
 * Empties the permissions of a batch of bots that were revoked too long ago to be listed and that have no tokens left. The bots
 * stay: they are revoked for good, but the history shows their names.
 */
function emptiedBots(revokedBefore: string): Sql {
  return sql`
    update platform.bots set permissions = '{"entities": {}}'
    where id = any(array(
      select id from (
        select id, revoked_at, row_number() over (partition by tenant_id order by revoked_at desc, id desc) as place
        from platform.bots
        where revoked_at is not null and pg_column_size(permissions) > ${EMPTY_BYTES}::int
      ) as former
      where place > ${LIMITS.bot.revokedShown}::int and revoked_at < ${revokedBefore}::timestamptz
      limit ${BATCH_ROWS}::int))
    returning 1`;
}

/** Deletes at most a batch, skipping rows that another process is deleting. */
function deletion(table: Sql, condition: Sql): Sql {
  return sql`
    delete from ${table}
    where ctid = any(array(select ctid from ${table} where ${condition} limit ${BATCH_ROWS}::int for update skip locked))
    returning 1`;
}
