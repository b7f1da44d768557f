// Imports a body of any size in constant memory. While one batch is written, the next is read; while a batch waits for its
// slot, nothing is read. A batch is one statement, written with the rights that the caller has at that time. It is kept when a
// later batch fails or the upload is aborted; rejected lines are skipped and reported.
// Contract: decisions#import.
import { type Static, Type } from '@sinclair/typebox';
import type { CallerNow } from '../../access/authenticate.ts';
import { requireOneRight, type TenantCaller } from '../../access/caller.ts';
import type { App } from '../../app.ts';
import { accessScopeFor } from '../../entities/access-scope.ts';
import { catalogOf } from '../../entities/catalog.ts';
import { invalidField, ServiceError } from '../../errors.ts';
import { Uuid } from '../../http/schemas.ts';
import { LIMITS } from '../../limits.ts';
import type { DryRun } from '../../runtime/dry-run.ts';
import { giveWay } from '../../runtime/event-loop.ts';
import { keepGarbageSmall } from '../../runtime/garbage.ts';
import { newId } from '../../runtime/ids.ts';
import { slices } from '../../runtime/slices.ts';
import { isQuotaExceeded } from '../../usage/write-quotas.ts';
import { applyIndependently } from '../batch/independent.ts';
import type { BatchItem, BatchKind, Outcome } from '../batch/items.ts';
import { requireUniqueField } from '../batch/keys.ts';
import type { Turn } from '../write/context.ts';
import { BatchWriting, NotWritten } from './batch-writing.ts';

import { DryImport } from './dry-import.ts';
import { beginImport, endImport } from './import-log.ts';
import { JsonArrayReader } from './json-array.ts';
import { type Line, LineReader } from './lines.ts';
import { type ImportFormat, lineParser, type ParsedLine } from './records-of-file.ts';
import { resolveRelated } from './related.ts';

export const ImportReport = Type.Object({
  created: Type.Integer({ minimum: 0 }),
  updated: Type.Integer({ minimum: 0, description: 'with `upsert`: records that were there already' }),
  refused: Type.Integer({ minimum: 0 }),
  errors: Type.Array(
    Type.Object({
      line: Type.Integer({ minimum: 1 }),
      item: Type.Optional(Type.Integer({ minimum: 1, description: 'of a JSON array: the position in it' })),
      message: Type.String(),
    }),
  ),
  importId: Uuid,
});
type ImportReport = Static<typeof ImportReport>;

const { batchRows, batchBytesMax, errorsReported, errorCharacters } = LIMITS.transfer;
/** A batch of more bytes is not prepared while another is written. */
const aheadBytesMax = 1.25 * batchBytesMax;
const nothing = async (): Promise<void> => undefined;

export interface ImportInput {
  format: ImportFormat;
  /** The unique field by which a line finds the record to change, or `id` if ids are kept; without it, each creates one. */
  upsert?: string | undefined;
  /** Set for a dry run; the effects that the import would have are added to it. */
  dryRun?: DryRun | null;
  /** `keep`: new records get the ids of the file. */
  ids?: 'keep' | 'new' | undefined;
  /** The delimiter of CSV. */
  delimiter?: string | undefined;
}

/**
 * 400 for a header with unknown columns, before anything is written; other problems are in the report. 401 and 403 when the
 * caller loses its rights meanwhile.
 */
export async function importRecords(
  app: App,
  caller: TenantCaller,
  entityName: string,
  { format, upsert, ids, delimiter, dryRun = null }: ImportInput,
  body: AsyncIterable<Uint8Array>,
  callerNow: CallerNow,
): Promise<ImportReport> {
  const kind: BatchKind = upsert === undefined ? { op: 'create' } : { op: 'upsert', by: upsert };
  requireRightFor(kind, caller, entityName);
  const scope = await accessScopeFor(app, caller, entityName);
  const keepsIds = ids === 'keep';
  if (upsert !== undefined && !(upsert === 'id' && keepsIds)) requireUniqueField(scope, upsert, 'upsert');
  if (delimiter !== undefined && format !== 'csv') throw invalidField('delimiter', 'applies to CSV only');
  const importId = dryRun === null ? await beginImport(app, caller, scope.entity.id) : newId();
  const writer = new BatchWriter(app, callerNow, entityName, importId, kind, dryRun && new DryImport(dryRun));
  const lines = format === 'json' ? new JsonArrayReader() : new LineReader(format === 'csv');
  const catalog = await catalogOf(app, caller.tenant);
  const read = lineParser({ caller, catalog, scope }, { format, delimiter, keepsIds, upsert });
  const addAll = async (some: Line[]): Promise<void> => {
    // Each line is released once it is read: its text need not be held while its values are written.
    some.reverse();
    for (let line = some.pop(); line !== undefined; line = some.pop()) {
      // Parsing a line of a megabyte takes up to 30 ms, and many imports may do so at once.
      const way = giveWay();
      if (way !== undefined) await way;
      if (writer.add(line, await read(line))) await writer.flush();
    }
  };
  const collected = keepGarbageSmall();
  try {
    for await (const chunk of uploaded(body)) await addAll(lines.push(chunk));
    await addAll(lines.end());
    return await writer.end();
  } catch (error) {
    throw await writer.stopped(error);
  } finally {
    collected();
    if (dryRun === null) await endImport(app, importId);
  }
}

/** An upsert needs the right to create or to update; each record is then checked for the right that its outcome needs. */
function requireRightFor({ op }: BatchKind, caller: TenantCaller, entityName: string): void {
  requireOneRight(caller, op === 'upsert' ? ['create', 'update'] : ['create'], entityName);
}

/** Bytes of the body that are split at once: finding the lines in them takes a few milliseconds, even if all are empty. */
const PIECE = 16_384;

export async function* inPieces(body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  for await (const chunk of body) {
    for (const piece of slices(chunk, PIECE)) {
      await giveWay();
      yield piece;
    }
  }
}

/** The body in pieces; an aborted upload is the client's error. */
export async function* uploaded(body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    yield* inPieces(body);
  } catch (cause) {
    if (cause instanceof ServiceError && cause.ecode === 'REQUEST_TIMEOUT') throw cause;
    throw new ServiceError('VALIDATION_ERROR', 'the upload was aborted', { cause });
  }
}

/** The position of a line in the file, without its text: a line may be a megabyte, and its values are held as well. */
type Place = Pick<Line, 'line' | 'item'>;
/** A line of the file that has values. */
type ImportItem = Pick<BatchItem, 'id' | 'body'> & { at: Place };

/** Writes records in batches: collects one while at most one is being written. */
class BatchWriter {
  #batch: ImportItem[] = [];
  #bytes = 0;
  readonly #writing: BatchWriting;
  #counts = { created: 0, updated: 0, deleted: 0 };
  #refused = 0;
  /** The last line that has been written. */
  #through = 0;
  #errors: ImportReport['errors'] = [];

  constructor(
    private readonly app: App,
    private readonly callerNow: CallerNow,
    private readonly entityName: string,
    private readonly importId: string,
    private readonly kind: BatchKind,
    private readonly dry: DryImport | null,
  ) {
    this.#writing = new BatchWriting(app);
  }

  /** Adds a line to the batch. Returns whether the batch is full. */
  add({ line, item, bytes }: Line, read: ParsedLine): boolean {
    if (read === null) return false;
    const at = item === undefined ? { line } : { line, item };
    if ('problem' in read) {
      this.#refuse(at, read.problem);
      return false;
    }
    this.#batch.push({ at, id: read.id, body: read.values });
    this.#bytes += bytes;
    return this.#batch.length >= batchRows || this.#bytes >= batchBytesMax;
  }

  async end(): Promise<ImportReport> {
    await this.flush();
    await this.#writing.written();
    const { importId } = this;
    const { created, updated } = this.#counts;
    return { created, updated, refused: this.#refused, errors: this.#reported(), importId };
  }

  /** The error of an import that cannot continue, with the number of records already written. */
  async stopped(error: unknown): Promise<unknown> {
    await this.#writing.ended();
    const { created, updated } = this.#counts;
    if (!(error instanceof ServiceError) || created + updated === 0 || this.dry !== null) return error;
    const { ecode, message, details, headers, status } = error;
    const kept =
      `${created + updated} records were imported before and are kept (importId ${this.importId}), ` +
      `up to line ${this.#through}; with \`upsert\` the whole file can be sent again`;
    return new ServiceError(ecode, `${message}; ${kept}`, {
      ...(details === undefined ? {} : { details }),
      headers: { ...headers },
      status,
      cause: error,
    });
  }

  /** Starts writing the batch. */
  async flush(): Promise<void> {
    const batch = this.#batch;
    const bytes = this.#bytes;
    this.#batch = [];
    this.#bytes = 0;
    // Batches of large records are in memory one at a time.
    if (bytes > aheadBytesMax) await this.#writing.start(() => this.#write(batch, nothing));
    else await this.#writing.startAhead((turn) => this.#write(batch, turn));
  }

  async #write(lines: readonly ImportItem[], turn: Turn): Promise<void> {
    if (this.dry !== null) await turn(false);
    const importer = { ...(await this.#caller()), triggeredBy: 'system', importId: this.importId } as const;
    const batch = { ...this.kind, items: await this.#related(importer, lines, turn) };
    const toResult = (_: unknown, __: unknown, ___: unknown, outcome: Outcome): Outcome => outcome;
    const outcomes = await (this.dry === null
      ? applyIndependently(this.app, importer, this.entityName, batch, toResult, (isPrepared) =>
          this.#admitted(turn, isPrepared),
        )
      : this.dry.apply(this.app, importer, this.entityName, batch));
    let exceeded: ServiceError | null = null;
    for (const [i, outcome] of outcomes) {
      if (outcome instanceof ServiceError) this.#refuse((lines[i] as ImportItem).at, sentence(outcome));
      else this.#counts[outcome] += 1;
      if (isQuotaExceeded(outcome)) exceeded ??= outcome;
    }
    // The following batches would be refused too.
    if (exceeded !== null) throw exceeded;
    this.#through = lines.at(-1)?.at.line ?? this.#through;
  }

  /** An upload may take long: a revoked credential, a changed role, a quota or a suspension applies to the next batch. */
  async #caller(): Promise<TenantCaller> {
    const caller = await this.callerNow();
    requireRightFor(this.kind, caller, this.entityName);
    return caller;
  }

  /** Waits for the turn of the batch. A batch that was prepared ahead is written only if the caller still has the right. */
  async #admitted(turn: Turn, isPrepared: boolean): Promise<void> {
    await turn(isPrepared);
    if (!isPrepared) return;
    await this.#caller().catch((cause: unknown) => {
      throw new NotWritten(cause);
    });
  }

  /**
   * The lines as items, in which relations named by a unique field become ids; lines whose relations have no target are
   * refused.
   */
  async #related(caller: TenantCaller, lines: readonly ImportItem[], turn: Turn): Promise<BatchItem[]> {
    const items = lines.map(({ id, body }, index) => ({ index, id, body }));
    if (!lines.some(({ body }) => Object.keys(body).some((name) => name.includes('.')))) return items;
    await turn(false);
    const { app, entityName } = this;
    const scope = await accessScopeFor(app, caller, entityName);
    const context = { caller, catalog: await catalogOf(app, caller.tenant), scope };
    const bodies = items.map(({ body }) => body);
    const problems = await resolveRelated(app.db, context, bodies);
    for (const [i, problem] of problems) this.#refuse((lines[i] as ImportItem).at, problem);
    return items.filter(({ index }) => !problems.has(index));
  }

  #refuse({ line, item }: Place, message: string): void {
    this.#refused += 1;
    this.#errors.push({ line, ...(item === undefined ? {} : { item }), message: shortened(message) });
    if (this.#errors.length >= 2 * errorsReported) this.#errors = this.#reported();
  }

  /** Sorted into file order, because an unreadable line is reported before earlier lines have been written. */
  #reported(): ImportReport['errors'] {
    return this.#errors.sort((a, b) => a.line - b.line || (a.item ?? 0) - (b.item ?? 0)).slice(0, errorsReported);
  }
}

function sentence({ message, details }: ServiceError): string {
  return details?.map((problem) => `${problem.path}: ${problem.message}`).join('; ') ?? message;
}

function shortened(message: string): string {
  return message.length <= errorCharacters ? message : `${message.slice(0, errorCharacters - 1).toWellFormed()}…`;
}
