// The body of a bulk request, `{ operations: [{ op, id?, by?, data?, etag? }], atomic? }`, and its response. The path of a
// problem is `operations.<i>.<member>`; with `atomic: false` an invalid operation has its own result instead. The values in
// `data` are checked later, against the entity. Contract: decisions#bulk.
import { type Static, type TSchema, Type } from '@sinclair/typebox';
import { invalid, type Problem, type ServiceError } from '../../errors.ts';
import { problemsOf } from '../../http/check.ts';
import { closed, nullable, oneOf, ProblemSchema } from '../../http/schemas.ts';
import { LIMITS } from '../../limits.ts';
import { RecordSchema, ValuesSchema } from '../record.ts';
import { versionsFrom } from '../row.ts';
import type { BatchItem, OperationKind } from './items.ts';

const Id = Type.String({ description: 'of the record to update or delete', error: 'must be the id of a record' });
const Etag = Type.String({
  description: 'the ETag that the record must have, as in `If-Match`',
  error: 'must be the ETag of a record',
  examples: ['"1"'],
});
const By = Type.String({
  description: 'of an upsert: the unique field whose value in `data` finds the record to change',
  error: 'must be the key of a unique field',
});
const Kind = oneOf(['create', 'update', 'delete', 'upsert']);
const Atomic = Type.Optional(
  Type.Boolean({ default: true, description: 'all or nothing; otherwise a result per operation' }),
);
const { operationsMax: maxItems } = LIMITS.bulk;
const listOf = <T extends TSchema>(operation: T) => Type.Array(operation, { minItems: 1, maxItems });

/** A request, in which operations may be invalid: with `atomic: false` each then has its own result. */
export const BulkRequest = closed({
  atomic: Atomic,
  operations: listOf(
    Type.Object({
      op: Kind,
      id: Type.Optional(Id),
      by: Type.Optional(By),
      data: Type.Optional(ValuesSchema),
      etag: Type.Optional(Etag),
    }),
  ),
});
export type BulkRequest = Static<typeof BulkRequest>;

/** A request without an invalid operation. */
const Strict = closed({
  atomic: Atomic,
  operations: listOf(
    Type.Union([
      closed({ op: Type.Literal('create'), data: ValuesSchema }),
      closed({ op: Type.Literal('update'), id: Id, data: ValuesSchema, etag: Type.Optional(Etag) }),
      closed({ op: Type.Literal('delete'), id: Id, etag: Type.Optional(Etag) }),
      closed({ op: Type.Literal('upsert'), by: By, data: ValuesSchema, etag: Type.Optional(Etag) }),
    ]),
  ),
});

const OperationError = Type.Object({
  code: Type.String(),
  message: Type.String(),
  details: Type.Optional(Type.Array(ProblemSchema)),
});
const BulkResultSchema = Type.Object({
  index: Type.Integer({ minimum: 0, description: "the operation's position in the request" }),
  op: Kind,
  id: nullable(Type.String()),
  success: Type.Boolean(),
  outcome: Type.Optional(oneOf(['created', 'updated'], { description: 'of an upsert: what it has done' })),
  data: Type.Optional(RecordSchema),
  etag: Type.Optional(Type.String({ description: 'the ETag of the record that was written', examples: ['"2"'] })),
  error: Type.Optional(OperationError),
});
export type BulkResult = Static<typeof BulkResultSchema>;
export const BulkSchema = Type.Object({
  results: Type.Array(BulkResultSchema),
  succeeded: Type.Integer({ minimum: 0 }),
  failed: Type.Integer({ minimum: 0 }),
});
export type BulkResponse = Static<typeof BulkSchema>;

/** An operation of a request. `id` is '' for a creation or an upsert; `by` is only for upserts. */
export interface Operation extends BatchItem {
  op: OperationKind;
  by: string;
  /** With `atomic: false`: the problems of an invalid operation. */
  fault?: ServiceError;
}

/** The operations, and whether the request is all or nothing. 400 with every problem of the request. */
export function readBulk(body: BulkRequest): { operations: Operation[]; isAtomic: boolean } {
  const isAtomic = body.atomic !== false;
  const faults = new Map<number, Problem[]>();
  const problems = problemsOf(Strict, body).filter(({ path, message }) => {
    const [, index, member = ''] = /^operations\.(\d+)(?:\.(.*))?$/s.exec(path) ?? [];
    // A result repeats the `op`, so an operation with an unknown one cannot have a result.
    if (isAtomic || index === undefined || !isKind(body.operations[Number(index)]?.op)) return true;
    faults.set(Number(index), [...(faults.get(Number(index)) ?? []), { path: member, message }]);
    return false;
  });
  if (problems.length > 0) throw invalid(problems);
  return { operations: body.operations.map((operation, index) => read(operation, index, faults.get(index))), isAtomic };
}

function read(operation: BulkRequest['operations'][number], index: number, faults?: Problem[]): Operation {
  const { op, data = {} } = operation;
  // An invalid operation may have an id and an etag of any type.
  const id = typeof operation.id === 'string' ? operation.id : '';
  const by = typeof operation.by === 'string' ? operation.by : '';
  const versions = typeof operation.etag === 'string' ? versionsFrom(operation.etag) : null;
  return { index, op, id, by, body: data, versions, ...(faults === undefined ? {} : { fault: invalid(faults) }) };
}

function isKind(op: unknown): op is OperationKind {
  return op === 'create' || op === 'update' || op === 'delete' || op === 'upsert';
}
