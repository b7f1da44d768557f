// Exports the records that a list would return, as CSV or NDJSON, from one snapshot and in constant memory.
// Failures: 400 for invalid parameters, 429 for too many exports at once; later ones abort the connection.
// Contract: decisions#export, neighbours#byte-budgets.

import type { CallerNow } from '../../access/authenticate.ts';
import { requireUnlimitedRows } from '../../access/bot-limits.ts';
import { requireRight, type TenantCaller } from '../../access/caller.ts';
import type { App } from '../../app.ts';
import { type AccessScope, accessScopeFor } from '../../entities/access-scope.ts';
import type { Entity, Field } from '../../entities/field.ts';
import { forbidden, rateLimited, ServiceError } from '../../errors.ts';
import { SYSTEM_FIELDS } from '../../expression/ast.ts';
import { LIMITS } from '../../limits.ts';
import { keepGarbageSmall } from '../../runtime/garbage.ts';
import type { RawRow } from '../../runtime/postgres.ts';
import { sql } from '../../runtime/sql.ts';
import { countRead } from '../../usage/tally.ts';
import { readProjection, selectInTurn } from '../read/list.ts';
import { planList } from '../read/list-plan.ts';
import { orderBy, readSort } from '../read/order.ts';
import type { ListInput } from '../read/parameters.ts';
import { csvLine } from './csv.ts';
import { exportStream, type LineWriter, ReaderStalled } from './export-stream.ts';
import { type Column, csvRecord, EXPORT_COLUMNS, recordJson } from './stored-row.ts';

export type Format = 'csv' | 'ndjson';

/**
 * `onCut` is called when the export is aborted, for example because the caller's rights have changed. Rejects before the first
 * byte for invalid parameters or an unavailable database.
 */
export async function exportRecords(
  app: App,
  caller: TenantCaller,
  entityName: string,
  format: Format,
  input: ListInput,
  { onCut, callerNow }: { onCut: () => void; callerNow: CallerNow },
): Promise<ReadableStream<Uint8Array>> {
  requireRight(caller, 'read', entityName);
  requireUnlimitedRows(caller, 'list the records page by page, with a cursor');
  const scope = await accessScopeFor(app, caller, entityName);
  countRead(app, caller);
  const keys = readSort(input.sort, input.order, scope.names);
  const writer = writerOf(format, scope, readProjection(scope, input.fields));
  const { where, condition } = await selectInTurn(scope, input);
  const { order } = planList(scope.entity, condition, keys);
  const query = sql`
    select ${EXPORT_COLUMNS} from ${scope.entity.table} as r where ${where} order by ${orderBy(order)}`;
  const rows = app.db.stream(query, LIMITS.transfer.exportBatchRows);
  return openExport(app, caller.tenant.id, writer, permitted(rows, caller, callerNow), onCut);
}

/**
 * The lines of the rows. A share, such as a tenant, may run only a few exports at once: rejects with 429 beyond that. Also
 * rejects with the failure of the first batch, while that can still set the status; `onCut` is called when the export is
 * aborted later.
 */
export async function openExport<Row>(
  app: App,
  share: string,
  writer: LineWriter<Row>,
  rows: AsyncIterable<Row[]>,
  onCut: () => void,
): Promise<ReadableStream<Uint8Array>> {
  const batches = limited(share, rows);
  return exportStream(writer, batches, await batches.next(), {
    ...LIMITS.transfer,
    isWaitedFor: () => app.db.stats('streams').waiting > 0,
    onAborted: (cause) => {
      onCut();
      const isExpected = cause instanceof ReaderStalled || (cause instanceof ServiceError && cause.status < 500);
      if (isExpected) app.log.info('an export was cut', { reason: cause.message });
      else app.log.error('an export was aborted', { cause });
    },
  });
}

/** The batches, each only while the caller has the same rights as at the start. */
export async function* permitted<T>(
  batches: AsyncIterable<T>,
  { rights, role, email }: TenantCaller,
  callerNow: CallerNow,
): AsyncGenerator<T> {
  // Row filters may depend on `$currentUser`.
  const given = JSON.stringify([rights, role, email]);
  for await (const batch of batches) {
    const now = await callerNow();
    if (JSON.stringify([now.rights, now.role, now.email]) !== given) throw forbidden('the permissions have changed');
    yield batch;
  }
}

/** Running exports in this process by share: slow clients of one tenant must not hold all connections. */
const running = new Map<string, number>();

export function tooManyExports(): ServiceError {
  return rateLimited('too many exports at once', 5);
}

/** Counts the export against the share's limit while it runs. 429 when the limit is reached. */
async function* limited<T>(share: string, batches: AsyncIterable<T>): AsyncGenerator<T> {
  const others = running.get(share) ?? 0;
  if (others >= LIMITS.transfer.exportsPerTenant) throw tooManyExports();
  running.set(share, others + 1);
  const collected = keepGarbageSmall();
  try {
    yield* batches;
  } finally {
    collected();
    const left = (running.get(share) ?? 1) - 1;
    if (left === 0) running.delete(share);
    else running.set(share, left);
  }
}

function writerOf(format: Format, scope: AccessScope, fields: readonly Field[]): LineWriter<RawRow> {
  const { entity } = scope;
  if (format === 'ndjson') return { head: '', line: (row) => ndjsonLine(row, entity, fields) };
  const { id, entityId, createdAt, updatedAt, createdBy, updatedBy } = SYSTEM_FIELDS;
  const columns: Column[] = [id, entityId, ...fields, createdAt, updatedAt, createdBy, updatedBy];
  return {
    head: csvLine(columns.map(({ key }) => key)),
    line: (row) => csvRecord(row, entity, columns),
  };
}

function* ndjsonLine(row: RawRow, entity: Entity, fields: readonly Field[]): Generator<string | Uint8Array> {
  yield* recordJson(row, entity, fields);
  yield '\n';
}
