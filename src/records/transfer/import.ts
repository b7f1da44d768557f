// Import: a body of any size becomes records, in constant memory. While one batch is written the next
// is read. A batch is one statement and stays when a later one fails or the upload breaks off; refused
// lines are left out and reported. Columns of system fields are ignored, so that an exported file can
// be imported again. Contract: decisions#import.
import { requireRight, type TenantCaller } from '../../access/caller.ts';
import type { App } from '../../app.ts';
import { entityFor } from '../../entities/catalog.ts';
import { ServiceError } from '../../errors.ts';
import { LIMITS } from '../../limits.ts';
import { applyIndependently, type BatchItem } from '../batch/batch.ts';
import type { Format } from './export.ts';
import { type ReadLine, readerOf } from './import-lines.ts';
import { LineReader } from './lines.ts';

/** `line` counts from 1, as the file's first. */
export interface ImportError {
  line: number;
  message: string;
}

export interface ImportReport {
  created: number;
  refused: number;
  /** The first of them. */
  errors: ImportError[];
}

const { batchRows, batchBytesMax, errorsReported } = LIMITS.transfer;

/** 400 for a header with unknown columns, before anything is written; other faults are the report's. */
export async function importRecords(
  app: App,
  caller: TenantCaller,
  entityName: string,
  format: Format,
  body: AsyncIterable<Uint8Array>,
): Promise<ImportReport> {
  await entityFor(app, caller, entityName);
  requireRight(caller, 'create', entityName);
  const load = new Load(app, { ...caller, triggeredBy: 'system' }, entityName);
  const lines = new LineReader(format === 'csv');
  const read = await readerOf(app, caller, entityName, format);
  try {
    for await (const chunk of uploaded(body)) {
      for (const line of lines.push(chunk)) await load.add(line.line, line.bytes, read(line));
    }
    for (const line of lines.end()) await load.add(line.line, line.bytes, read(line));
    return await load.end();
  } catch (error) {
    throw await load.stopped(error);
  }
}

/** The body's chunks; a sender that goes away is no failure of the service's. */
async function* uploaded(body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    yield* body;
  } catch (cause) {
    throw new ServiceError('VALIDATION_ERROR', 'the upload broke off', { cause });
  }
}

/** The records on their way: one batch being gathered, at most one being written. */
class Load {
  readonly #app: App;
  readonly #caller: TenantCaller;
  readonly #entityName: string;
  #batch: BatchItem[] = [];
  #bytes = 0;
  #writing: Promise<void> = Promise.resolve();
  #failure: { error: unknown } | null = null;
  #created = 0;
  #refused = 0;
  #errors: ImportError[] = [];

  constructor(app: App, caller: TenantCaller, entityName: string) {
    this.#app = app;
    this.#caller = caller;
    this.#entityName = entityName;
  }

  async add(line: number, bytes: number, read: ReadLine): Promise<void> {
    if (read === null) return;
    if ('problem' in read) return this.#refuse(line, read.problem);
    this.#batch.push({ index: line, id: '', body: read.values });
    this.#bytes += bytes;
    if (this.#batch.length >= batchRows || this.#bytes >= batchBytesMax) await this.#flush();
  }

  async end(): Promise<ImportReport> {
    await this.#flush();
    await this.#settled();
    return { created: this.#created, refused: this.#refused, errors: this.#reported() };
  }

  /** The error to answer with when the import cannot go on: it says what is written already. */
  async stopped(error: unknown): Promise<unknown> {
    await this.#writing;
    if (!(error instanceof ServiceError) || this.#created === 0) return error;
    const { ecode, message, details, headers } = error;
    return new ServiceError(ecode, `${message}; ${this.#created} records before this were imported and stay`, {
      ...(details === undefined ? {} : { details }),
      headers: { ...headers },
      cause: error,
    });
  }

  async #flush(): Promise<void> {
    const batch = this.#batch;
    this.#batch = [];
    this.#bytes = 0;
    await this.#settled();
    this.#writing = this.#write(batch).catch((error: unknown) => {
      this.#failure = { error };
    });
  }

  async #settled(): Promise<void> {
    await this.#writing;
    if (this.#failure !== null) throw this.#failure.error;
  }

  async #write(items: readonly BatchItem[]): Promise<void> {
    const outcomes = await applyIndependently(this.#app, this.#caller, this.#entityName, { op: 'create', items });
    for (const [line, outcome] of outcomes) {
      if (outcome instanceof ServiceError) this.#refuse(line, sentence(outcome));
      else this.#created += 1;
    }
  }

  #refuse(line: number, message: string): void {
    this.#refused += 1;
    this.#errors.push({ line, message });
    if (this.#errors.length >= 4 * errorsReported) this.#errors = this.#reported();
  }

  /** In the order of the file: lines that cannot be read are known before those that are being written. */
  #reported(): ImportError[] {
    return this.#errors.sort((a, b) => a.line - b.line).slice(0, errorsReported);
  }
}

function sentence({ message, details }: ServiceError): string {
  return details?.map((problem) => `${problem.path}: ${problem.message}`).join('; ') ?? message;
}
