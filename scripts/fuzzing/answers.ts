// What is read of responses: why a request was refused, the result of a tool; and how long they are waited for.
// A body is anything: nothing here throws.
// Times are milliseconds.
import type { Schema } from './json.ts';

/** Aborts after some time in which this process ran: one that is stopped for a minute misses no deadline by it. */
export function deadline(ms: number): AbortSignal {
  const controller = new AbortController();
  const wait = (left: number): void => {
    if (left <= 0) controller.abort(new Error('no response in time'));
    else setTimeout(wait, Math.min(left, 1_000), left - 1_000).unref();
  };
  wait(ms);
  return controller.signal;
}

/** The first reason of a refusal. */
export function failureIn(body: Schema): string {
  return JSON.stringify(body?.error?.details?.[0] ?? body?.error?.message ?? '');
}

/** Whether a tool has failed for a reason that it does not say. */
export const isInternal = (text: string): boolean =>
  rpcResult(text)?.isError === true && text.includes('INTERNAL_ERROR');

/** The result of an MCP response, whichever of its two forms it has. */
export function rpcResult(text: string): Schema {
  const line =
    text
      .split('\n')
      .find((each) => each.startsWith('data: '))
      ?.slice(6) ?? text;
  try {
    return JSON.parse(line).result;
  } catch {
    return undefined;
  }
}
