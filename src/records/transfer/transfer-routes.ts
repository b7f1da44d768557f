// The routes of export and import. Their bodies are streams of any size: MAX_BODY_BYTES does not apply.
// Failures: 415 for a content type other than CSV and NDJSON, unless the query names the format.
// Contract: decisions#export, decisions#import.
import { Type } from '@sinclair/typebox';
import { Elysia } from 'elysia';
import { callerNow } from '../../access/authenticate.ts';
import type { App } from '../../app.ts';
import { invalidField, ServiceError } from '../../errors.ts';
import { requireIdentityEncoding } from '../../http/body.ts';
import { steady } from '../../http/body-progress.ts';
import { addChangesCursor, CHANGES_CURSOR } from '../../http/changes-cursor.ts';
import { guard } from '../../http/guard.ts';
import { keepOwnIdle, type SetIdle } from '../../http/own-idle.ts';
import { parameters } from '../../http/parameters.ts';
import { ok } from '../../http/reply.ts';
import { route } from '../../http/route.ts';
import { oneOf } from '../../http/schemas.ts';
import { LIMITS } from '../../limits.ts';
import { LEGACY_FILTER, ListQuery, listInput } from '../read/parameters.ts';
import { exportRecords, type Format } from './export.ts';
import { ImportReport, importRecords } from './import.ts';

const CSV = 'text/csv; charset=utf-8';
const NDJSON = 'application/x-ndjson; charset=utf-8';
/** A reader that takes nothing does not see the end either: the server then closes its connection. */
const CUT_IDLE_S = 1;
const TAG = 'Records';

const FormatParameter = Type.Optional(
  oneOf(['csv', 'ndjson'], { description: 'the format of the file', error: 'must be csv or ndjson' }),
);
const { filters, search, sort, order, fields } = ListQuery.properties;
const ExportQuery = parameters({ format: FormatParameter, filters, search, sort, order, fields }, LEGACY_FILTER);

const EXPORT = route({
  id: 'exportRecords',
  tag: TAG,
  summary: 'Export records',
  description: `The records that a list would return, without a limit on their number: CSV with a header line, or NDJSON (the
default). In CSV, a text that a spreadsheet would run as a formula gets a leading apostrophe, which import removes. An
aborted connection means that the file is incomplete.`,
  access: 'tenant',
  query: ExportQuery,
  ok: [200, ['text/csv', 'application/x-ndjson']],
  responseHeaders: { 'Content-Disposition': 'a file name with the name of the entity', ...CHANGES_CURSOR },
});

const IMPORT = route({
  id: 'importRecords',
  tag: TAG,
  summary: 'Import records',
  description: `Creates a record for each line of a CSV file (its first line names the columns) or an NDJSON file of any
size. Rejected lines are skipped and counted, and the first 1000 reported with their numbers. Records are written in batches
while the file is read: records of an aborted upload are kept.`,
  access: 'tenant',
  right: 'create',
  query: parameters({ format: FormatParameter }),
  bodyTypes: ['text/csv', 'application/x-ndjson'],
  ok: [200, ImportReport],
  errors: ['UNSUPPORTED_MEDIA_TYPE', 'BUSINESS_RULE_ERROR'],
});

export function transferRoutes(app: App) {
  return new Elysia({ name: 'transfer' })
    .use(guard(app))
    .get(
      '/api/entities/:entityName/records/export',
      async ({ caller, params, query, request }) => {
        const { entityName } = params;
        const format = query.format ?? 'ndjson';
        let setIdle: SetIdle | undefined;
        await addChangesCursor(app, caller, request);
        const closeSoon = (): void => setIdle?.(CUT_IDLE_S);
        const body = await exportRecords(app, caller, entityName, format, listInput(query), {
          onCut: closeSoon,
          callerNow: callerNow(app, request, caller),
        });
        keepOwnIdle(request, (set) => {
          setIdle = set;
          set(LIMITS.transfer.stalledMs / 1_000);
        });
        return download(body, entityName, format);
      },
      EXPORT,
    )
    .post(
      '/api/entities/:entityName/records/import',
      async ({ caller, params, query, request }) => {
        requireIdentityEncoding(request);
        const format = query.format ?? formatOf(request);
        if (request.body === null) throw invalidField('body', 'is missing');
        const now = callerNow(app, request, caller);
        return ok(await importRecords(app, caller, params.entityName, format, steady(request.body), now));
      },
      IMPORT,
    );
}

function download(body: ReadableStream<Uint8Array>, entityName: string, format: Format): Response {
  return new Response(body, {
    headers: {
      'content-type': format === 'csv' ? CSV : NDJSON,
      'content-disposition': `attachment; filename="${entityName}.${format}"`,
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
    },
  });
}

function formatOf(request: Request): Format {
  const type = (request.headers.get('content-type') ?? '').split(';')[0]?.trim().toLowerCase();
  if (type === 'text/csv') return 'csv';
  if (type === 'application/x-ndjson' || type === 'application/jsonl') return 'ndjson';
  throw new ServiceError(
    'UNSUPPORTED_MEDIA_TYPE',
    'send the body as Content-Type: text/csv or application/x-ndjson, or set `format` in the query',
  );
}
