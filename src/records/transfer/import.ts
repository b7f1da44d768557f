// Imports a body of any size in constant memory. While one batch is written, the next is read; not while it waits. A batch is one
// statement, written with the rights that the caller has then, and is kept when a later one fails or the upload is aborted;
// rejected lines are skipped and reported.
// The first line of a CSV file names its columns; columns of system fields are ignored.
// Contract: decisions#import.
import { type Static, Type } from '@sinclair/typebox';
import type { CallerNow } from '../../access/authenticate.ts';
import { requireRight, type TenantCaller } from '../../access/caller.ts';
import { type App, perApp } from '../../app.ts';
import { type AccessScope, accessScopeFor } from '../../entities/access-scope.ts';
import { entityFor } from '../../entities/catalog.ts';
import type { Field } from '../../entities/field.ts';
import { specOf } from '../../entities/field-types.ts';
import { invalid, invalidField, type Problem, ServiceError } from '../../errors.ts';
import { SYSTEM_FIELDS } from '../../expression/ast.ts';
import { parseObject } from '../../http/json-object.ts';
import { Uuid } from '../../http/schemas.ts';
import { LIMITS } from '../../limits.ts';
import { Semaphore } from '../../runtime/concurrency.ts';
import { giveWay } from '../../runtime/event-loop.ts';
import type { JsonObject } from '../../runtime/text.ts';
import { currentWork } from '../../runtime/work.ts';
import { isQuotaExceeded } from '../../usage/write-quotas.ts';
import { applyIndependently } from '../batch/independent.ts';
import type { BatchItem } from '../batch/items.ts';
import { cellsOf } from './csv.ts';
import type { Format } from './export.ts';
import { beginImport, endImport } from './import-log.ts';
import { type Line, LineReader } from './lines.ts';

export const ImportReport = Type.Object({
  created: Type.Integer({ minimum: 0 }),
  refused: Type.Integer({ minimum: 0 }),
  errors: Type.Array(Type.Object({ line: Type.Integer({ minimum: 1 }), message: Type.String() })),
  importId: Uuid,
});
type ImportReport = Static<typeof ImportReport>;

const { batchRows, batchBytesMax, batchesWriting, batchesWaiting, errorsReported, errorCharacters, headerProblemsMax } =
  LIMITS.transfer;

/**
 * 400 for a header with unknown columns, before anything is written; other problems are in the report. 401 and 403 when the
 * caller loses its rights meanwhile.
 */
export async function importRecords(
  app: App,
  caller: TenantCaller,
  entityName: string,
  format: Format,
  body: AsyncIterable<Uint8Array>,
  callerNow: CallerNow,
): Promise<ImportReport> {
  requireRight(caller, 'create', entityName);
  const entity = await entityFor(app, caller, entityName);
  const importId = await beginImport(app, caller, entity.id);
  const writer = new BatchWriter(app, callerNow, entityName, importId);
  const lines = new LineReader(format === 'csv');
  const read = await lineParser(app, caller, entityName, format);
  const add = async (line: Line): Promise<void> => {
    // Parsing a line of a megabyte takes up to 30 ms, and many files may have reached one.
    await giveWay();
    await writer.add(line.line, line.bytes, read(line));
  };
  try {
    for await (const chunk of uploaded(body)) for (const line of lines.push(chunk)) await add(line);
    for (const line of lines.end()) await add(line);
    return await writer.end();
  } catch (error) {
    throw await writer.stopped(error);
  } finally {
    await endImport(app, importId);
  }
}

/** Of a body, in bytes: finding the lines in one takes a few milliseconds, even if all are empty. */
const PIECE = 16_384;

/** The body in pieces; an aborted upload is the client's error. */
async function* uploaded(body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    for await (const chunk of body) {
      for (let at = 0; at < chunk.length; at += PIECE) {
        await giveWay();
        yield chunk.subarray(at, at + PIECE);
      }
    }
  } catch (cause) {
    if (cause instanceof ServiceError && cause.ecode === 'REQUEST_TIMEOUT') throw cause;
    throw new ServiceError('VALIDATION_ERROR', 'the upload was aborted', { cause });
  }
}

/** Batches in writing, of imports and of what is as large: a batch may take several megabytes, and a tenant may upload many files at once. */
export const importWriters = perApp(
  () => new Semaphore({ name: 'imports', slots: batchesWriting, shareWaitingMax: batchesWaiting, limitsLong: true }),
);

/** Writes records in batches: collects one while at most one is being written. */
class BatchWriter {
  #batch: BatchItem[] = [];
  #bytes = 0;
  #writing: Promise<void> = Promise.resolve();
  #failure: { error: unknown } | null = null;
  #created = 0;
  #refused = 0;
  #errors: ImportReport['errors'] = [];

  constructor(
    private readonly app: App,
    private readonly callerNow: CallerNow,
    private readonly entityName: string,
    private readonly importId: string,
  ) {}

  async add(line: number, bytes: number, read: ParsedLine): Promise<void> {
    if (read === null) return;
    if ('problem' in read) return this.#refuse(line, read.problem);
    this.#batch.push({ index: line, id: '', body: read.values });
    this.#bytes += bytes;
    if (this.#batch.length >= batchRows || this.#bytes >= batchBytesMax) await this.#flush();
  }

  async end(): Promise<ImportReport> {
    await this.#flush();
    await this.#settled();
    const { importId } = this;
    return { created: this.#created, refused: this.#refused, errors: this.#reported(), importId };
  }

  /** The error of an import that cannot continue, with the number of records already written. */
  async stopped(error: unknown): Promise<unknown> {
    await this.#writing;
    if (!(error instanceof ServiceError) || this.#created === 0) return error;
    const { ecode, message, details, headers, status } = error;
    const kept = `${this.#created} records were imported before and are kept (importId ${this.importId})`;
    return new ServiceError(ecode, `${message}; ${kept}`, {
      ...(details === undefined ? {} : { details }),
      headers: { ...headers },
      status,
      cause: error,
    });
  }

  async #flush(): Promise<void> {
    const batch = this.#batch;
    this.#batch = [];
    this.#bytes = 0;
    await this.#settled();
    const leave = await importWriters(this.app).enter(currentWork());
    this.#writing = this.#write(batch)
      .catch((error: unknown) => {
        this.#failure = { error };
      })
      .finally(leave);
  }

  async #settled(): Promise<void> {
    await this.#writing;
    if (this.#failure !== null) throw this.#failure.error;
  }

  async #write(items: readonly BatchItem[]): Promise<void> {
    const batch = { op: 'create', items } as const;
    // An upload may take long: a revoked credential, a changed role, a quota or a suspension applies to the next batch.
    const caller = await this.callerNow();
    requireRight(caller, 'create', this.entityName);
    const importer = { ...caller, triggeredBy: 'system', importId: this.importId } as const;
    const outcomes = await applyIndependently(this.app, importer, this.entityName, batch, () => null);
    let exceeded: ServiceError | null = null;
    for (const [line, outcome] of outcomes) {
      if (outcome instanceof ServiceError) this.#refuse(line, sentence(outcome));
      else this.#created += 1;
      if (isQuotaExceeded(outcome)) exceeded ??= outcome;
    }
    // The following batches would be refused too.
    if (exceeded !== null) throw exceeded;
  }

  #refuse(line: number, message: string): void {
    this.#refused += 1;
    this.#errors.push({ line, message: shortened(message) });
    if (this.#errors.length >= 2 * errorsReported) this.#errors = this.#reported();
  }

  /** Sorted into file order, because an unreadable line is reported before earlier lines have been written. */
  #reported(): ImportReport['errors'] {
    return this.#errors.sort((a, b) => a.line - b.line).slice(0, errorsReported);
  }
}

function sentence({ message, details }: ServiceError): string {
  return details?.map((problem) => `${problem.path}: ${problem.message}`).join('; ') ?? message;
}

function shortened(message: string): string {
  return message.length <= errorCharacters ? message : `${message.slice(0, errorCharacters - 1).toWellFormed()}…`;
}

/** Null for a line without values, such as a header. */
type ParsedLine = { values: JsonObject } | { problem: string } | null;

/** A parser for the file's lines, called in order. It throws a 400 for a header that does not match the entity. */
async function lineParser(
  app: App,
  caller: TenantCaller,
  entityName: string,
  format: Format,
): Promise<(line: Line) => ParsedLine> {
  if (format === 'ndjson') return (line) => ('problem' in line ? line : parseJsonLine(line.text));
  const scope = await accessScopeFor(app, caller, entityName);
  let columns: Column[] | null = null;
  return (line) => {
    if (columns !== null) return 'problem' in line ? line : parseCells(columns, line.text);
    columns = parseHeader(scope, line);
    return null;
  };
}

const MISPLACED_QUOTES = 'has misplaced quotes (see RFC 4180)';
/** A header without problems has fewer; one with a cell more has as many problems as are listed. */
const HEADER_CELLS_MAX = LIMITS.entity.fieldsMax + Object.keys(SYSTEM_FIELDS).length + headerProblemsMax;

/** Null for a system field. */
type Column = Field | null;

function parseHeader(scope: AccessScope, line: Line): Column[] {
  const cells = 'text' in line ? cellsOf(line.text, HEADER_CELLS_MAX) : null;
  if (cells === null) throw invalidField('header', 'problem' in line ? line.problem : MISPLACED_QUOTES);
  const problems: Problem[] = [];
  const known = new Set<string>();
  const columns: Column[] = [];
  for (const cell of cells) {
    const key = cell.trim();
    const field = scope.entity.byKey.get(key);
    const isColumn = field !== undefined && scope.isVisible(field);
    if (known.has(key)) problems.push({ path: key.slice(0, 200), message: 'names two columns' });
    known.add(key);
    if (!isColumn && !Object.hasOwn(SYSTEM_FIELDS, key)) {
      problems.push({ path: key.slice(0, 200), message: 'is not a field of this entity' });
    }
    if (problems.length >= headerProblemsMax) break;
    columns.push(isColumn ? field : null);
  }
  if (problems.length > 0) throw invalid(problems.slice(0, headerProblemsMax));
  return columns;
}

function parseCells(columns: readonly Column[], text: string): ParsedLine {
  const cells = cellsOf(text, columns.length + 1);
  if (cells === null) return { problem: MISPLACED_QUOTES };
  if (cells.length !== columns.length) {
    const found = cells.length < columns.length ? cells.length : 'more';
    return { problem: `has ${found} cells, but the header has ${columns.length}` };
  }
  const values: JsonObject = {};
  for (const [i, field] of columns.entries()) {
    const cell = cells[i] as string;
    if (field !== null && cell !== '') values[field.key] = specOf(field).cell.read(cell);
  }
  return { values };
}

function parseJsonLine(text: string): ParsedLine {
  if (text.trim() === '') return null;
  const parsed = parseObject(text);
  if ('problems' in parsed) {
    const [{ path, message } = { path: '', message: '' }] = parsed.problems;
    return { problem: path === 'body' ? message : `${path}: ${message}` };
  }
  const values = parsed.value;
  for (const key of Object.keys(SYSTEM_FIELDS)) delete values[key];
  return { values };
}
