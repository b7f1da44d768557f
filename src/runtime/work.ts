// For whom the code is running: the tenant whose share of connections and workers it uses, and whether someone still
// waits for its result. A request opens a `Work`, authentication names its tenant; background work states its tenant.
// Queues, pools, metrics and traces read it instead of taking it through every call. It follows `await`, so work that
// others depend on (a shared load, a notice to the outputs) leaves the request's with `detached` or `withoutSignal`.
// Costs 0.1 µs a request on Bun, 0.4 µs on Deno.
// Contract: neighbours#fair-shares.
import { AsyncLocalStorage } from 'node:async_hooks';
import type { Trace } from './trace.ts';

export interface Work {
  /** The tenant that the work is for; null when it is not known yet, and for the service's own work. */
  tenantId: string | null;
  /** Work of the same share waits in one queue: a tenant's id, `address:<client>` before authentication, or `service`. */
  share: string;
  /** Operators' work goes first and counts for no share. */
  isOperator: boolean;
  /** Aborts when the client has gone; undefined for work that no client waits for. A function, since reading it costs. */
  signal: (() => AbortSignal) | undefined;
  /** The client was seen to have gone: nothing more of this work needs to start. */
  isGone: boolean;
  /** The span that the work belongs to; events that it appends keep it. Null without a trace. */
  readonly trace: Trace | null;
  /** The call that the work is part of; undefined for work that no client waits for. */
  readonly call: Call | undefined;
}

/** A client's call: what is done before its response exists. */
interface Call {
  /** Frees its place among the large calls; undefined while it has none. */
  leave: (() => void) | undefined;
  hasEnded: boolean;
}

const BACKGROUND = { isOperator: false, signal: undefined, isGone: false, trace: null, call: undefined } as const;
const SERVICE: Work = { tenantId: null, share: 'service', ...BACKGROUND };
const current = new AsyncLocalStorage<Work>();

/** The work that the calling code belongs to; the service's own if it belongs to none. */
export function currentWork(): Work {
  return current.getStore() ?? SERVICE;
}

/**
 * Runs a client's work. It counts for the client's address until authentication names the tenant (`countFor`). The
 * client waits for it until it resolves; what the work has started and goes on later is not stopped.
 */
export async function forClient<T>(
  address: string,
  signal: () => AbortSignal,
  trace: Trace | null,
  run: () => T | Promise<T>,
): Promise<T> {
  const share = `address:${address}`;
  const call: Call = { leave: undefined, hasEnded: false };
  const work = { tenantId: null, share, isOperator: false, signal, isGone: false, trace, call };
  try {
    return await current.run(work, run);
  } finally {
    Object.assign(work, { signal: undefined, isGone: false });
    end(call);
  }
}

/** Runs a part of a client's work that may end later than the call, as a call of its own. */
export async function asCall<T>(run: () => Promise<T>): Promise<T> {
  const call: Call = { leave: undefined, hasEnded: false };
  try {
    return await current.run({ ...currentWork(), call }, run);
  } finally {
    end(call);
  }
}

function end(call: Call): void {
  call.hasEnded = true;
  call.leave?.();
}

/** Whether the client of this work has gone. Costs a few microseconds at the first call: ask only after a while. */
export function isGone(work: Work): boolean {
  if (!work.isGone && work.signal?.().aborted === true) work.isGone = true;
  return work.isGone;
}

/** The rest of the client's work counts for this tenant, or is an operator's. */
export function countFor(tenantId: string | null, isOperator: boolean): void {
  const work = currentWork();
  if (work.signal === undefined) return;
  work.tenantId = tenantId;
  work.isOperator = isOperator;
  if (tenantId !== null) work.share = tenantId;
}

/** Runs background work of a tenant. */
export function forTenant<T>(tenantId: string, run: () => T): T {
  return current.run({ tenantId, share: tenantId, ...BACKGROUND }, run);
}

/** Runs something as the service's own work, also when a request calls it. */
export function detached<T>(run: () => T): T {
  return current.run(SERVICE, run);
}

/** Runs something whose result others wait for too, so that it goes on when the client has gone. */
export function withoutSignal<T>(run: () => T): T {
  const work = currentWork();
  return work.signal === undefined ? run() : current.run({ ...work, signal: undefined, isGone: false }, run);
}
