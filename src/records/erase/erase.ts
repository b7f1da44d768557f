// Erasing a record. One transaction deletes it as a plain deletion does (unless it was deleted before) and stores a row that
// says that its values are to be erased for good. The values are erased in parts after the commit (values.ts): by this call or,
// if its process dies, by another one. A record is erased only once, however many callers ask meanwhile.
// Failures: 403 for all but tenant admins, 404 for a record that never was or is no longer kept, and the failures of a
// deletion.
// Contract: history#erase.
import { requireTenantAdmin, type TenantCaller } from '../../access/caller.ts';
import type { App } from '../../app.ts';
import { entityFor } from '../../entities/catalog.ts';
import type { Entity } from '../../entities/field.ts';
import { conflict, notFound, ServiceError } from '../../errors.ts';
import { type ErasedRecord, type Erasure, eraseDeletion, isOfRecord, lastNumber } from '../../events/erasure.ts';
import { isUuid } from '../../runtime/ids.ts';
import { lockNumber } from '../../runtime/locks.ts';
import { isDeadlock } from '../../runtime/postgres/failures.ts';
import { NO_TABLE_SCANS, sql, type Tx } from '../../runtime/sql.ts';
import { autocommit, inTransaction, MAX_ATTEMPTS } from '../write/context.ts';
import { deleteRecord } from '../write/write.ts';
import { ErasingPass, LEASE_S } from './values.ts';

/** How long a call erases values, in milliseconds; the rest is erased in the background. */
const ANSWER_MS = 20_000;

/** Resolves to whether all values have been erased; if not, the rest is erased in the background. */
export async function eraseRecord(
  app: App,
  caller: TenantCaller,
  entityName: string,
  id: string,
  versions: readonly number[] | null,
): Promise<boolean> {
  requireTenantAdmin(caller);
  const entity = await entityFor(app, caller, entityName);
  if (!isUuid(id)) throw notFound('record');
  const erasure = await beginErasure(app, caller, entity, id.toLowerCase(), versions);
  return new ErasingPass(app, erasure).eraseUntil(performance.now() + ANSWER_MS);
}

/** Deletes the record unless it was deleted before, and stores that it is to be erased. */
async function beginErasure(
  app: App,
  caller: TenantCaller,
  entity: Entity,
  id: string,
  versions: readonly number[] | null,
): Promise<Erasure> {
  for (let tries = 1; ; tries++) {
    try {
      return await inTransaction(autocommit(app, caller), async (context) => {
        const { tx } = context;
        await lockDeleted(tx, caller.tenant.id, id);
        const last = await lastNumber(tx);
        const isDeleted = await deleteRecord(context, entity.name, id, versions).then(
          () => true,
          (error: unknown) => {
            if (error instanceof ServiceError && error.ecode === 'NOT_FOUND') return false;
            throw error;
          },
        );
        if (!isDeleted) await requireEvents(tx, caller, entity, id);
        const at = new Date().toISOString();
        const record = { tenantId: caller.tenant.id, recordId: id, at, by: caller.id };
        const seq = isDeleted ? await eraseDeletion(tx, record, last) : null;
        return store(tx, record, seq);
      });
    } catch (error) {
      if (!isDeadlock(error) || tries === MAX_ATTEMPTS) throw error;
    }
  }
}

/** The lock for bringing a record back and for erasing it, so that only one transaction at a time finds it deleted. */
export async function lockDeleted(tx: Tx, tenantId: string, recordId: string): Promise<void> {
  await tx.rows(sql`select pg_advisory_xact_lock(${lockNumber(tenantId, 'deleted', recordId.toLowerCase())})`);
}

/** 409 while a record is being erased; the caller holds the lock. */
export async function requireNoErasure(tx: Tx, tenantId: string, recordId: string): Promise<void> {
  const found = await tx.first(sql`
    select from platform.erasures where tenant_id = ${tenantId}::uuid and record_id = ${recordId}::uuid`);
  if (found !== undefined) throw hasBeenErased();
}

export function hasBeenErased(): ServiceError {
  return conflict('the values of this record have been erased');
}

async function requireEvents(tx: Tx, { tenant }: TenantCaller, entity: Entity, id: string): Promise<void> {
  await tx.rows(sql`select ${NO_TABLE_SCANS}`);
  const found = await tx.first(sql`
    select from platform.events
    where ${isOfRecord({ tenantId: tenant.id, recordId: id })} and entity_id = ${entity.id}::uuid
    limit 1`);
  if (found === undefined) throw notFound('record');
}

/** Stores the erasure. One that is already in progress keeps its time and author, but its passes begin again. */
async function store(tx: Tx, { tenantId, recordId, at, by }: ErasedRecord, seq: number | null): Promise<Erasure> {
  const row = await tx.first<Erasure>(sql`
    insert into platform.erasures as e (tenant_id, record_id, at, actor, seq, due_at)
    values (${tenantId}::uuid, ${recordId}::uuid, ${at}::timestamptz, ${by}, ${seq}::bigint,
      now() + make_interval(secs => ${LEASE_S}::int))
    on conflict (tenant_id, record_id) do update set seq = coalesce(excluded.seq, e.seq), is_swept = false
    returning tenant_id as "tenantId", record_id as "recordId", at, actor as by, seq`);
  if (row === undefined) throw new Error('an erasure was not stored');
  return row;
}
