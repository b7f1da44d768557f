// A fault of a document names its line and the member in it: `lines.<number>.<member>`. If an operation rejects a line with
// any 4xx status, the import responds with 400.
// Contract: portability#import.
import { invalid, ServiceError } from '../errors.ts';

const NOT_OF_A_LINE: ReadonlySet<string> = new Set(['REQUEST_TIMEOUT', 'CLIENT_GONE']);
/** Errors that already name their line. */
const faults = new WeakSet<ServiceError>();

/** Runs code that reads a line; a refusal becomes a fault of that line. */
export async function atLine<T>(line: number, read: () => T | Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    throw faultAt(line, error);
  }
}

/** Turns a refusal into a 400 of the line; any other failure is returned unchanged. */
export function faultAt(line: number, error: unknown): unknown {
  if (!(error instanceof ServiceError) || error.status >= 500 || NOT_OF_A_LINE.has(error.ecode)) return error;
  if (faults.has(error)) return error;
  const problems = error.details ?? [{ path: '', message: error.message }];
  const fault = invalid(
    problems.map(({ path, message }) => ({
      path: `lines.${line}${path === '' || path === 'body' ? '' : `.${path}`}`,
      message,
    })),
  );
  faults.add(fault);
  return fault;
}
