// Traces as W3C Trace Context writes them: the headers `traceparent` and `tracestate`, and the text that an event keeps of
// the request that caused it. An invalid `traceparent` is ignored, as the standard says, and with it `tracestate`; an
// invalid `tracestate` alone is dropped. Exporting spans is in tracing.ts. No I/O.
// Contract: neighbours#who-does-what.
import { randomBytes } from 'node:crypto';

/** A span of a trace, as the parent of further ones. */
export interface Trace {
  /** 32 lower-case hexadecimal digits, not all 0. */
  traceId: string;
  /** 16 of them, not all 0. */
  spanId: string;
  isSampled: boolean;
  /** `tracestate`: what other systems store with the trace. */
  state: string | null;
}

/** Bytes and members of a `tracestate` that is passed on; the standard asks for at least these. */
const STATE_MAX = 512;
const STATE_MEMBERS_MAX = 32;

const VERSION_0 = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/;
/** A later version may add fields. 255 is no version. */
const LATER = /^(?!00|ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?$/;
const HEADER_MAX = 1_024;
const STATE_MEMBER = /^[ \t]*(?:[a-z0-9][a-z0-9_\-*/@]{0,255}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{1,256})?[ \t]*$/;

/** The trace that a request belongs to; null without a valid `traceparent`. */
export function traceOf(headers: Headers): Trace | null {
  const parent = headers.get('traceparent');
  return parent === null ? null : parseTrace(parent, headers.get('tracestate'));
}

function parseTrace(parent: string, state: string | null): Trace | null {
  if (parent.length > HEADER_MAX) return null;
  const [, traceId = '', spanId = '', flags = ''] = VERSION_0.exec(parent) ?? LATER.exec(parent) ?? [];
  if (!/[1-9a-f]/.test(traceId) || !/[1-9a-f]/.test(spanId)) return null;
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & 1) === 1, state: validState(state) };
}

function validState(state: string | null): string | null {
  if (state === null || state === '' || state.length > STATE_MAX) return null;
  const members = state.split(',');
  return members.length <= STATE_MEMBERS_MAX && members.every((member) => STATE_MEMBER.test(member)) ? state : null;
}

/** The headers that pass the trace on. */
export function traceHeaders({ traceId, spanId, isSampled, state }: Trace): Record<string, string> {
  const traceparent = `00-${traceId}-${spanId}-${isSampled ? '01' : '00'}`;
  return state === null ? { traceparent } : { traceparent, tracestate: state };
}

/** One line, for `parseStored`. */
export function storedTrace(trace: Trace): string {
  const { traceparent = '', tracestate } = traceHeaders(trace);
  return tracestate === undefined ? traceparent : `${traceparent} ${tracestate}`;
}

/** The trace of an event; null without one. */
export function parseStored(stored: string | null | undefined): Trace | null {
  if (stored == null) return null;
  const end = stored.indexOf(' ');
  return end < 0 ? parseTrace(stored, null) : parseTrace(stored.slice(0, end), stored.slice(end + 1));
}

/** A new span of the same trace. */
export function childOf(trace: Trace): Trace {
  return { ...trace, spanId: randomBytes(8).toString('hex') };
}
