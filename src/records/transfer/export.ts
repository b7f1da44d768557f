// Export: the records that a list would show, as CSV or as one JSON object a line, in one snapshot and
// constant memory. The client's reading sets the pace. A failure after the first byte breaks the
// connection, so that a cut file never looks like a whole one.
// Contract: decisions#export.
import { requireRight, type TenantCaller } from '../../access/caller.ts';
import type { App } from '../../app.ts';
import { catalogOf, entityFor } from '../../entities/catalog.ts';
import type { Field } from '../../entities/field.ts';
import { cellOf } from '../../entities/field-types.ts';
import { rateLimited } from '../../errors.ts';
import { SYSTEM_FIELDS } from '../../expression/ast.ts';
import { LIMITS } from '../../limits.ts';
import { sql } from '../../runtime/sql.ts';
import { type AccessScope, accessScopeOf } from '../access-scope.ts';
import { type ListInput, readProjection, select } from '../read/list.ts';
import { orderBy, readSort } from '../read/order.ts';
import { RECORD_COLUMNS, type RecordRow } from '../row.ts';
import { shape } from '../shape.ts';
import { csvLine } from './csv.ts';

export type Format = 'csv' | 'ndjson';

/** The file's bytes. Rejects before the first of them for a bad question or a database that is away. */
export async function exportRecords(
  app: App,
  caller: TenantCaller,
  entityName: string,
  format: Format,
  input: ListInput,
): Promise<ReadableStream<Uint8Array>> {
  const entity = await entityFor(app, caller, entityName);
  requireRight(caller, 'read', entityName);
  const scope = accessScopeOf(await catalogOf(app, caller.tenant), caller, entity);
  const sort = readSort(input.sort, input.order, scope.names);
  const writer = writerOf(format, scope, readProjection(scope, input.fields));
  const { where } = select(scope, input, null);
  const query = sql`
    select ${RECORD_COLUMNS} from ${entity.table} as r where ${where} order by ${orderBy(sort)}`;
  const batches = inPlace(caller.tenant.id, app.db.stream<RecordRow>(query, LIMITS.transfer.exportBatchRows));
  // The first batch is read ahead: what is wrong with the question or the database shows in it.
  return pulled(app, writer, batches, await batches.next());
}

/** Exports under way in this process, by tenant: slow readers of one must leave places to the others. */
const underWay = new Map<string, number>();

/** The batches, while they hold one of the tenant's places. 429 when there is none. */
async function* inPlace<T>(tenantId: string, batches: AsyncIterable<T>): AsyncGenerator<T> {
  const others = underWay.get(tenantId) ?? 0;
  if (others >= LIMITS.transfer.exportsPerTenant) throw rateLimited('too many exports at once', 5);
  underWay.set(tenantId, others + 1);
  try {
    yield* batches;
  } finally {
    const left = (underWay.get(tenantId) ?? 1) - 1;
    if (left === 0) underWay.delete(tenantId);
    else underWay.set(tenantId, left);
  }
}

interface Writer {
  /** What comes before the first record. */
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

/** A stream that fetches a batch when its reader asks for more, and releases the cursor when the reader leaves. */
function pulled(
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
        const batch = ahead ?? (await batches.next().catch((cause: unknown) => brokenOff(app, cause)));
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

/** By now the answer is under way: only the log can say what happened, and only a broken connection that it did. */
function brokenOff(app: App, cause: unknown): never {
  app.log.error('an export broke off', { cause });
  throw cause;
}
