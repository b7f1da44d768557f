// For whom the code is running: the tenant whose share of connections and workers it uses, and whether someone still waits for its
// result. A request opens a `Work`, and authentication names its tenant; background work states its tenant. Queues, pools, metrics and
// traces read the current work, so calls need not pass it on. It follows `await`; work that others depend on (a shared load, a notice to
// the outputs) leaves the request's work with `detached` or `withoutSignal`.
// Costs 0.1 µs a request on Bun, 0.4 µs on Deno.
// Contract: neighbours#fair-shares.
import { AsyncLocalStorage } from 'node:async_hooks';
import { SERVICE_SHARE } from './fair-share.ts';
import type { Trace } from './trace.ts';

export interface Work {
  /** The tenant that the work is for; null when it is not known yet, and for the service's own work. */
  tenantId: string | null;
  /**
   * Work of the same share waits in one queue: a tenant's id, `address:<network>` before authentication, `strangers:<tenant's
   * id>` for requests that name a tenant without a credential, `operators`, or `service`.
   */
  share: string;
  /** Operators' work goes first and counts for no share. */
  isOperator: boolean;
  /** Aborts when the client has gone; undefined for work that no client waits for. A function, since reading it costs. */
  signal: (() => AbortSignal) | undefined;
  /** Set once the client is known to have disconnected: nothing more of this work needs to start. */
  isGone: boolean;
  /** The span that the work belongs to; events that it appends keep it. Null without a trace. */
  readonly trace: Trace | null;
  /** The call that the work is part of; undefined for work that no client waits for. */
  readonly call: Call | undefined;
  /** Milliseconds that its statements have taken so far, without the wait for a connection. */
  statementMs: number;
  /** How many locks its statements may take in one transaction, as far as it is known. */
  locks: number;
}

/** A client's call: the work that is done before its response exists. */
interface Call {
  /** Frees its place among the large calls; undefined while it has none. */
  leave: (() => void) | undefined;
  /** The counted bytes that it holds without a place, and the function that gives them back. */
  held: number;
  giveBack: (() => void) | undefined;
  hasEnded: boolean;
}

const BACKGROUND = {
  isOperator: false,
  signal: undefined,
  isGone: false,
  trace: null,
  call: undefined,
  statementMs: 0,
  locks: 0,
} satisfies Partial<Work>;
const SERVICE: Work = { tenantId: null, share: SERVICE_SHARE, ...BACKGROUND };
const current = new AsyncLocalStorage<Work>();

/** The work that the calling code belongs to; the service's own if it belongs to none. */
export function currentWork(): Work {
  return current.getStore() ?? SERVICE;
}

const ADDRESS = 'address:';
/** The share of all strangers together. With a share for each network, clients with many networks would get more. */
export const STRANGERS = 'strangers';

/** The share of operators' calls for no tenant. */
const OPERATORS = 'operators';

/** The share of a client that is not authenticated yet. */
export function addressShare(address: string): string {
  return `${ADDRESS}${address}`;
}

/**
 * Runs a client's work. It counts for the client's network until authentication names the tenant (`countFor`). The
 * client waits until it resolves. Whatever the work has started and that continues later is not stopped.
 */
export async function forClient<T>(
  address: string,
  signal: () => AbortSignal,
  trace: Trace | null,
  run: () => T | Promise<T>,
): Promise<T> {
  const share = addressShare(address);
  const call = newCall();
  const work = { ...BACKGROUND, tenantId: null, share, signal, trace, call };
  try {
    return await current.run(work, run);
  } finally {
    Object.assign(work, { signal: undefined, isGone: false });
    end(call);
  }
}

/** Runs a part of a client's work that may outlast the call, as a call of its own. It takes over the place and bytes of the call. */
export async function asCall<T>(run: () => Promise<T>): Promise<T> {
  const outer = currentWork().call;
  const call = newCall();
  if (outer?.hasEnded === false) {
    const { leave, held, giveBack } = outer;
    Object.assign(call, { leave, held, giveBack });
    Object.assign(outer, newCall());
  }
  try {
    return await current.run({ ...currentWork(), call }, run);
  } finally {
    end(call);
  }
}

function newCall(): Call {
  return { leave: undefined, held: 0, giveBack: undefined, hasEnded: false };
}

function end(call: Call): void {
  call.hasEnded = true;
  call.giveBack?.();
  call.leave?.();
}

/** Whether the client of this work has gone. Costs a few microseconds at the first call: ask only after a while. */
export function isGone(work: Work): boolean {
  if (!work.isGone && work.signal?.().aborted === true) work.isGone = true;
  return work.isGone;
}

/** From now on, the client's work counts for this tenant, or as an operator's work. */
export function countFor(tenantId: string | null, isOperator: boolean): void {
  const work = currentWork();
  if (work.signal === undefined) return;
  work.tenantId = tenantId;
  work.isOperator = isOperator;
  if (tenantId === null) {
    if (isOperator) work.share = OPERATORS;
    return;
  }
  work.share = tenantId;
  if (!isOperator) noteActive(tenantId);
}

/** What follows in the work may take so many locks in one transaction. The service's own work is many things. */
export function willLock(locks: number): void {
  const work = current.getStore();
  if (work !== undefined && work !== SERVICE && locks > work.locks) work.locks = locks;
}

/**
 * From now on, the work is for this tenant, but comes from strangers who name it. They wait in a queue of their own, so they use
 * nothing of the tenant's share. All strangers who name one tenant count together, whatever their addresses.
 */
export function countForStrangers(tenantId: string): void {
  const work = currentWork();
  if (work.signal === undefined) return;
  work.tenantId = tenantId;
  work.share = strangersOf(tenantId);
  noteActive(work.share);
}

/** Runs background work of strangers who name a tenant. */
export function forStrangers<T>(tenantId: string, run: () => T): T {
  return current.run({ tenantId, share: strangersOf(tenantId), ...BACKGROUND }, run);
}

function strangersOf(tenantId: string): string {
  return `${STRANGERS}:${tenantId}`;
}

/** Whether no credential has been verified for work of this share. */
export function isStrangers(share: string): boolean {
  return share.startsWith(ADDRESS) || share.startsWith(STRANGERS);
}

/** A tenant without calls for this time, in milliseconds, is not active. */
const ACTIVE_MS = 1_000;
/** The tenant that called last, when it called, and when another tenant last called before that. */
const latest = { share: '', at: Number.NEGATIVE_INFINITY, otherAt: Number.NEGATIVE_INFINITY };

function noteActive(share: string): void {
  if (share !== latest.share) {
    latest.otherAt = latest.at;
    latest.share = share;
  }
  latest.at = performance.now();
}

/** Whether clients of other tenants have called within the last second. */
export function areOthersActive(share: string): boolean {
  const at = share === latest.share ? latest.otherAt : latest.at;
  return performance.now() - at < ACTIVE_MS;
}

/** Whether clients of more than one tenant have called within the last second. */
export function areSeveralActive(): boolean {
  return performance.now() - latest.otherAt < ACTIVE_MS;
}

/** Runs background work of a tenant. */
export function forTenant<T>(tenantId: string, run: () => T): T {
  return current.run({ tenantId, share: tenantId, ...BACKGROUND }, run);
}

/** Runs a part of this work that something else calls, such as the reader of its result. */
export function asPartOf<T>(work: Work, run: () => T): T {
  return current.run(work, run);
}

/** Runs something as the service's own work, even when a request calls it. */
export function detached<T>(run: () => T): T {
  return current.run(SERVICE, run);
}

const PRESENT = new AbortController().signal;
const GONE = AbortSignal.abort();

/** Runs something that the clients of several works wait for: it continues until all of them have disconnected. */
export function forAll<T>(works: readonly Work[], run: () => T): T {
  const signal = (): AbortSignal => (works.every(isGone) ? GONE : PRESENT);
  return current.run({ ...currentWork(), signal, isGone: false }, run);
}

/** Runs something whose result others wait for too: it continues when the client disconnects. */
export function withoutSignal<T>(run: () => T): T {
  const work = currentWork();
  return work.signal === undefined ? run() : current.run({ ...work, signal: undefined, isGone: false }, run);
}
