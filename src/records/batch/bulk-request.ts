// The body of a bulk request: `{ operations: [{ op, id?, data? }], atomic? }`, read with every
// problem named as `operations.<i>.<member>`. What the values hold is checked with the operations.
// Contract: decisions#bulk.
import { invalid, type Problem, type ServiceError } from '../../errors.ts';
import { strangers } from '../../http/input.ts';
import { LIMITS } from '../../limits.ts';
import type { JsonObject } from '../../runtime/text.ts';
import type { BatchItem, OperationKind } from './batch.ts';

/** An operation by its place in the request; '' where a creation has no id. */
export interface Operation extends BatchItem {
  op: OperationKind;
  /** Where each operation stands for itself: why this one cannot even be tried. */
  fault?: ServiceError;
}

const MEMBERS = ['op', 'id', 'data'];

/** The operations and whether they are all or nothing (the default). 400 with every problem of the request. */
export function readBulk(body: JsonObject): { operations: Operation[]; isAtomic: boolean } {
  const problems = strangers(body, ['operations', 'atomic']);
  const { operations: given, atomic = true } = body;
  if (typeof atomic !== 'boolean') problems.push({ path: 'atomic', message: 'must be true or false' });
  const max = LIMITS.bulk.operationsMax;
  const isList = Array.isArray(given) && given.length >= 1 && given.length <= max;
  if (!isList) problems.push({ path: 'operations', message: `must be a list of 1 to ${max} operations` });
  const operations = (isList ? given : []).map((operation: unknown, index) => {
    const faults: Problem[] = [];
    const read = readOperation(operation, index, faults);
    if (faults.length === 0) return read;
    // Without a kind there is nothing that could have a result.
    if (atomic === false && isObject(operation) && isKind(operation.op)) return { ...read, fault: invalid(faults) };
    problems.push(
      ...faults.map(({ path, message }) => ({ path: `operations.${index}${path && `.${path}`}`, message })),
    );
    return read;
  });
  if (problems.length > 0) throw invalid(problems);
  return { operations, isAtomic: atomic === true };
}

function readOperation(given: unknown, index: number, problems: Problem[]): Operation {
  const refuse = (path: string, message: string): void => void problems.push({ path, message });
  const operation: Operation = { index, op: 'create', id: '', body: {} };
  if (!isObject(given)) {
    refuse('', 'must be an object');
    return operation;
  }
  const { op, id, data } = given;
  problems.push(...strangers(given, MEMBERS));
  if (!isKind(op)) {
    refuse('op', 'must be create, update or delete');
    return operation;
  }
  if (op === 'create' && id !== undefined) refuse('id', 'cannot be chosen');
  if (op !== 'create' && typeof id !== 'string') refuse('id', 'must be the id of a record');
  if (op !== 'delete' && !isObject(data)) refuse('data', 'must be an object of values');
  if (op === 'delete' && data !== undefined) refuse('data', 'is not accepted with delete');
  return { index, op, id: typeof id === 'string' ? id : '', body: isObject(data) ? data : {} };
}

function isKind(op: unknown): op is OperationKind {
  return op === 'create' || op === 'update' || op === 'delete';
}

function isObject(value: unknown): value is JsonObject {
  return value !== null && typeof value === 'object' && !Array.isArray(value);
}
