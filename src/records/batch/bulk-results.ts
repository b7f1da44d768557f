// The results of a bulk request, within the bytes of one response. A result is made before its operation is applied, so that
// an operation whose result does not fit is rejected instead.
// Contract: decisions#bulk, neighbours#byte-budgets.
import { ServiceError } from '../../errors.ts';
import { sized } from '../../http/bounded-response.ts';
import { errorBody } from '../../http/reply.ts';
import { LIMITS } from '../../limits.ts';
import { holdBytes } from '../../runtime/large-calls.ts';
import { jsonBytes } from '../../runtime/text.ts';
import { currentWork } from '../../runtime/work.ts';
import { etagOf, shape } from '../row.ts';
import type { BulkResponse, BulkResult, Operation } from './bulk-request.ts';
import type { OperationKind, ToResult } from './items.ts';

const { bytesMax } = LIMITS.response;
const ENVELOPE_BYTES = 200;
/** Of a failed operation whose error is shortened to fit. */
const SHORT_ERROR = { characters: 100, bytes: 500 };

export class BulkResults {
  readonly #results = new Map<number, { result: BulkResult; bytes: number }>();
  #bytes: number;

  /** `failing`: operations that may fail without failing the request. */
  constructor(failing = 0) {
    this.#bytes = ENVELOPE_BYTES + failing * SHORT_ERROR.bytes;
  }

  /** Makes the results of operations of one kind. An operation that is tried again replaces its result. */
  of(op: OperationKind): ToResult<null> {
    return (scope, { index }, row, outcome) => {
      const done = op === 'upsert' && outcome !== 'deleted' ? { outcome } : {};
      const data = op === 'delete' ? {} : { data: shape(row, scope.entity, scope.fields), etag: etagOf(row) };
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
    this.#set({ ...result, error: { code: error.ecode, message } }, 0);
  }

  /** In the order of the operations. */
  response(): BulkResponse {
    const kept = [...this.#results.values()].sort((a, b) => a.result.index - b.result.index);
    const results = kept.map(({ result }) => result);
    const succeeded = results.filter(({ success }) => success).length;
    return sized({ results, succeeded, failed: results.length - succeeded }, this.#bytes);
  }

  /** False when the result does not fit. */
  #add(result: BulkResult): boolean {
    this.#remove(result.index);
    const bytes = jsonBytes(result) + 1;
    if (this.#bytes + bytes > bytesMax) return false;
    holdBytes(currentWork(), this.#bytes + bytes);
    this.#set(result, bytes);
    return true;
  }

  #set(result: BulkResult, bytes: number): void {
    this.#results.set(result.index, { result, bytes });
    this.#bytes += bytes;
  }

  #remove(index: number): void {
    this.#bytes -= this.#results.get(index)?.bytes ?? 0;
    this.#results.delete(index);
  }
}

function tooLarge(): ServiceError {
  return new ServiceError(
    'VALIDATION_ERROR',
    `the response would be larger than ${bytesMax} bytes; send fewer operations at once`,
  );
}
