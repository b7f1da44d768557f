// The results of a bulk request, within the bytes of one response. A result is written as JSON before its operation is applied,
// so that an operation whose result does not fit is rejected instead, and its record is not held until the response.
// Contract: decisions#bulk, neighbours#byte-budgets.
import { Buffer } from 'node:buffer';
import { ServiceError } from '../../errors.ts';
import { ENVELOPE, type Envelope, errorBody, jsonText, okBytes, typed } from '../../http/reply.ts';
import { LIMITS } from '../../limits.ts';
import { giveWay } from '../../runtime/event-loop.ts';
import { holdBytes } from '../../runtime/large-calls.ts';
import { currentWork } from '../../runtime/work.ts';
import { etagOf, shapeWritten } from '../row.ts';
import type { BulkResponse, BulkResult, Operation } from './bulk-request.ts';
import type { OperationKind, ToResult } from './items.ts';

const { bytesMax, largeFrom } = LIMITS.response;
const ENVELOPE_BYTES = 200;
/** How much of an error is kept when a failed operation's result would not fit. */
const SHORT_ERROR = { characters: 100, bytes: 500 };
/** Approximate bytes of a large response that are handed over at once. */
const PIECE = 131_072;

/** A result as JSON. Long results are kept in UTF-8, which takes half the memory of most texts. */
interface Written {
  json: string | Buffer;
  bytes: number;
  success: boolean;
}

export class BulkResults {
  readonly #results = new Map<number, Written>();
  #bytes: number;

  /** `failing`: how many operations may fail without failing the request. */
  constructor(failing = 0) {
    this.#bytes = ENVELOPE_BYTES + failing * SHORT_ERROR.bytes;
  }

  /** Makes the results of operations of one kind. An operation that is tried again replaces its result. */
  of(op: OperationKind): ToResult<null> {
    return (scope, { index, body }, row, outcome) => {
      const done = op === 'upsert' && outcome !== 'deleted' ? { outcome } : {};
      const data = op === 'delete' ? {} : { data: shapeWritten(row, scope, body), etag: etagOf(row, scope) };
      if (!this.#add({ index, op, id: row.id, success: true, ...done, ...data })) throw tooLarge();
      return null;
    };
  }

  /** The result of an operation that failed; shortened when it does not fit. */
  failed({ index, op, id }: Pick<Operation, 'index' | 'op' | 'id'>, error: ServiceError): void {
    this.#remove(index);
    const result = { index, op, id: id === '' ? null : id, success: false } as const;
    if (this.#add({ ...result, error: errorBody(error) })) return;
    const message = error.message.slice(0, SHORT_ERROR.characters).toWellFormed();
    this.#results.set(index, { ...written({ ...result, error: { code: error.ecode, message } }), bytes: 0 });
  }

  /** 200 with the results in the order of the operations. Afterwards the results are released. */
  async response(): Promise<Envelope<BulkResponse>> {
    const results = [...this.#results].sort(([a], [b]) => a - b).map(([, result]) => result);
    this.#results.clear();
    const succeeded = results.filter(({ success }) => success).length;
    const end = `],"succeeded":${succeeded},"failed":${results.length - succeeded}}${ENVELOPE.end}`;
    if (this.#bytes < largeFrom) {
      return typed(jsonText(`${BEGINNING}${results.map(({ json }) => json).join(',')}${end}`));
    }
    return okBytes(await inPieces(results, end));
  }

  /** Adds a result. Returns false when it does not fit. */
  #add(result: BulkResult): boolean {
    this.#remove(result.index);
    const added = written(result);
    if (this.#bytes + added.bytes > bytesMax) return false;
    holdBytes(currentWork(), this.#bytes + added.bytes);
    this.#results.set(result.index, added);
    this.#bytes += added.bytes;
    return true;
  }

  #remove(index: number): void {
    this.#bytes -= this.#results.get(index)?.bytes ?? 0;
    this.#results.delete(index);
  }
}

const BEGINNING = `${ENVELOPE.beginning}{"results":[`;
/** Results of at least this many characters are kept in UTF-8. */
const LONG = 4_096;

/** The result and the comma after it. */
function written(result: BulkResult): Written {
  const text = JSON.stringify(result);
  const json = text.length < LONG ? text : Buffer.from(text);
  const bytes = typeof json === 'string' ? Buffer.byteLength(json) : json.length;
  return { json, bytes: bytes + 1, success: result.success };
}

/** Joins short results into one piece; each long result is a piece of its own. */
async function inPieces(results: readonly Written[], end: string): Promise<Buffer[]> {
  const pieces: Buffer[] = [];
  let text = BEGINNING;
  for (const [i, { json }] of results.entries()) {
    if (i > 0) text += ',';
    if (typeof json === 'string') text += json;
    if (typeof json === 'string' && text.length < PIECE) continue;
    pieces.push(Buffer.from(text));
    text = '';
    if (typeof json !== 'string') pieces.push(json);
    await giveWay();
  }
  pieces.push(Buffer.from(text + end));
  return pieces;
}

function tooLarge(): ServiceError {
  return new ServiceError(
    'VALIDATION_ERROR',
    `the response would be larger than ${bytesMax} bytes; send fewer operations at once`,
  );
}
