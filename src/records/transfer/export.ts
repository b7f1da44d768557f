// Exports the records that a list would return, as CSV or NDJSON, from one snapshot and in constant memory. A batch is
// fetched when the client has read the one before. A failure after the first byte aborts the connection, so that a
// truncated file never looks complete.
// Contract: decisions#export.
import { requireRight, type TenantCaller } from '../../access/caller.ts';
import type { App } from '../../app.ts';
import { type AccessScope, accessScopeFor } from '../../entities/access-scope.ts';
import type { Field } from '../../entities/field.ts';
import { cellOf } from '../../entities/field-types.ts';
import { rateLimited } from '../../errors.ts';
import { SYSTEM_FIELDS } from '../../expression/ast.ts';
import { LIMITS } from '../../limits.ts';
import { sql } from '../../runtime/sql.ts';
import { countRead } from '../../usage/tally.ts';
import { readProjection, select } from '../read/list.ts';
import { orderBy, readSort } from '../read/order.ts';
import type { ListInput } from '../read/parameters.ts';
import { RECORD_COLUMNS, type RecordRow, shape } from '../row.ts';
import { csvLine } from './csv.ts';

export type Format = 'csv' | 'ndjson';

/** Rejects before the first byte for invalid parameters or an unavailable database. */
export async function exportRecords(
  app: App,
  caller: TenantCaller,
  entityName: string,
  format: Format,
  input: ListInput,
): Promise<ReadableStream<Uint8Array>> {
  const scope = await accessScopeFor(app, caller, entityName);
  requireRight(caller, 'read', entityName);
  countRead(app, caller);
  const sort = readSort(input.sort, input.order, scope.names);
  const writer = writerOf(format, scope, readProjection(scope, input.fields));
  const { where } = select(scope, input);
  const query = sql`
    select ${RECORD_COLUMNS} from ${scope.entity.table} as r where ${where} order by ${orderBy(sort)}`;
  const batches = limited(caller.tenant.id, app.db.stream<RecordRow>(query, LIMITS.transfer.exportBatchRows));
  // Fetch the first batch now, while an error can still set the status.
  return streamOf(app, writer, batches, await batches.next());
}

/** Running exports in this process by tenant: slow clients of one tenant must not hold all connections. */
const running = new Map<string, number>();

/** Counts the export against the tenant's limit while it runs. 429 when the limit is reached. */
async function* limited<T>(tenantId: string, batches: AsyncIterable<T>): AsyncGenerator<T> {
  const others = running.get(tenantId) ?? 0;
  if (others >= LIMITS.transfer.exportsPerTenant) throw rateLimited('too many exports at once', 5);
  running.set(tenantId, others + 1);
  try {
    yield* batches;
  } finally {
    const left = (running.get(tenantId) ?? 1) - 1;
    if (left === 0) running.delete(tenantId);
    else running.set(tenantId, left);
  }
}

interface Writer {
  /** The text before the first record. */
  head: string;
  line(row: RecordRow): string;
}

function writerOf(format: Format, scope: AccessScope, fields: readonly Field[]): Writer {
  const { entity } = scope;
  if (format === 'ndjson') return { head: '', line: (row) => `${JSON.stringify(shape(row, entity, fields))}\n` };
  const { id, entityId, createdAt, updatedAt, createdBy, updatedBy } = SYSTEM_FIELDS;
  const columns = [id, entityId, ...fields, createdAt, updatedAt, createdBy, updatedBy];
  return {
    head: csvLine(columns.map(({ key }) => key)),
    line: (row) => {
      const record = shape(row, entity, fields);
      return csvLine(columns.map((column) => cellOf(column, record[column.key])));
    },
  };
}

/** A stream that fetches a batch on demand, and closes the database cursor when the client disconnects. */
function streamOf(
  app: App,
  { head, line }: Writer,
  batches: AsyncIterator<RecordRow[]>,
  first: IteratorResult<RecordRow[]>,
): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  let ahead: IteratorResult<RecordRow[]> | null = first;
  let before = head;
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const batch = ahead ?? (await batches.next().catch((cause: unknown) => aborted(app, cause)));
        ahead = null;
        const text = before + (batch.done === true ? '' : batch.value.map(line).join(''));
        before = '';
        if (text !== '') controller.enqueue(encoder.encode(text));
        if (batch.done === true) controller.close();
      },
      async cancel() {
        await batches.return?.();
      },
    },
    { highWaterMark: 0 },
  );
}

/** The status has been sent: aborting the connection is the only signal left. */
function aborted(app: App, cause: unknown): never {
  app.log.error('an export was aborted', { cause });
  throw cause;
}
