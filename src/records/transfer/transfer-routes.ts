// The routes of export and import. Their bodies are streams of any size: MAX_BODY_BYTES does not apply.
// Failures: 415 for a content type other than CSV, NDJSON and JSON, unless the query names the format.
// Contract: decisions#export, decisions#import.
import { Type } from '@sinclair/typebox';
import { Elysia } from 'elysia';
import { callerNow } from '../../access/authenticate.ts';
import type { App } from '../../app.ts';
import { addCursorFor } from '../../entities/response-cursor.ts';
import { invalidField, ServiceError } from '../../errors.ts';
import { requireIdentityEncoding } from '../../http/body.ts';
import { steady } from '../../http/body-progress.ts';
import { CHANGES_CURSOR } from '../../http/changes-cursor.ts';
import { DRY_RUN, withReport } from '../../http/dry-run.ts';
import { guard } from '../../http/guard.ts';
import { parameters } from '../../http/parameters.ts';
import { ok } from '../../http/reply.ts';
import { route } from '../../http/route.ts';
import { oneOf } from '../../http/schemas.ts';
import { DryRun } from '../../runtime/dry-run.ts';
import { rightToCreate } from '../batch/upsert.ts';
import { LEGACY_FILTER, ListQuery, listInput } from '../read/parameters.ts';
import { EXAMPLE_VALUES, ValuesSchema } from '../record.ts';
import { download, NDJSON } from './download.ts';
import { exportRecords } from './export.ts';
import { ImportReport, importRecords } from './import.ts';
import type { ImportFormat } from './records-of-file.ts';

const CSV = 'text/csv; charset=utf-8';
const TAG = 'Records';

const FormatParameter = Type.Optional(
  oneOf(['csv', 'ndjson'], { description: 'the format of the file', error: 'must be csv or ndjson' }),
);
const ImportFormatParameter = Type.Optional(
  oneOf(['csv', 'ndjson', 'json'], { description: 'the format of the file', error: 'must be csv, ndjson or json' }),
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
  description: `Creates a record for each line of a CSV file (its first line names the columns) or an NDJSON file, or each item of a
JSON array, of any size; with \`upsert\`, changes those that are there. A relation may be named by a unique field of its
target: column or member \`company.code\`. Rejected lines are skipped and counted, and the first 1000 reported with their numbers. Records are written in batches
while the file is read: records of an aborted upload are kept.`,
  access: 'tenant',
  right: rightToCreate,
  query: parameters({
    format: ImportFormatParameter,
    upsert: Type.Optional(
      Type.String({ description: 'a unique field: lines with a value of a record change that record' }),
    ),
    ids: Type.Optional(
      oneOf(['new', 'keep'], { description: '`keep`: records get the ids of the file', error: 'must be new or keep' }),
    ),
    delimiter: Type.Optional(
      oneOf([',', ';', '|', 'tab'], {
        description: 'of CSV; a comma, semicolon or tab is found from the header',
        error: 'must be a comma, a semicolon, | or tab',
      }),
    ),
    ...DRY_RUN,
  }),
  bodyTypes: ['text/csv', 'application/x-ndjson'],
  rawBody: Type.Array(ValuesSchema),
  example: [EXAMPLE_VALUES],
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
        await addCursorFor(app, caller, request);
        const type = format === 'csv' ? CSV : NDJSON;
        const now = callerNow(app, request, caller);
        return download(request, { type, name: `${entityName}.${format}` }, (onCut) =>
          exportRecords(app, caller, entityName, format, listInput(query), { onCut, callerNow: now }),
        );
      },
      EXPORT,
    )
    .post(
      '/api/entities/:entityName/records/import',
      async ({ caller, params, query, request }) => {
        requireIdentityEncoding(request);
        const dryRun = query.dryRun === true ? new DryRun() : null;
        const delimiter = query.delimiter === 'tab' ? '\t' : query.delimiter;
        const input = { ...query, delimiter, format: query.format ?? formatOf(request), dryRun };
        if (request.body === null) throw invalidField('body', 'is missing');
        const now = callerNow(app, request, caller);
        const report = ok(await importRecords(app, caller, params.entityName, input, steady(request.body), now));
        return dryRun === null ? report : withReport(report, dryRun, caller);
      },
      IMPORT,
    );
}

function formatOf(request: Request): ImportFormat {
  const type = (request.headers.get('content-type') ?? '').split(';')[0]?.trim().toLowerCase();
  if (type === 'text/csv') return 'csv';
  if (type === 'application/x-ndjson' || type === 'application/jsonl') return 'ndjson';
  if (type === 'application/json') return 'json';
  throw new ServiceError(
    'UNSUPPORTED_MEDIA_TYPE',
    'send the body as Content-Type: text/csv, application/x-ndjson or application/json, or set `format` in the query',
  );
}
