// The span of a delivery attempt. It belongs to the trace of the request that caused the change, and the receiver gets it as `traceparent`.
// Without export of spans, an attempt continues the trace that the request brought, if any. A span shows the receiver's host, but no path,
// which may contain a secret.
// Contract: neighbours#who-does-what.
import type { App } from '../../app.ts';
import { childOf, parseStored, type Trace } from '../../runtime/trace.ts';
import type { PostResult } from '../transport/http-post.ts';
import type { ClaimedDelivery } from './claim.ts';

interface AttemptSpan {
  /** Null when the receiver gets no trace. */
  trace: Trace | null;
  end(outcome: PostResult): void;
}

export function startAttempt({ tracing }: App, delivery: ClaimedDelivery, url: URL): AttemptSpan {
  const parent = parseStored(delivery.trace);
  if (tracing === null) return { trace: parent === null ? null : childOf(parent), end: () => undefined };
  const span = tracing.start('client', 'POST', parent, {
    'http.request.method': 'POST',
    'http.request.resend_count': delivery.attempts,
    'server.address': url.hostname,
    'server.port': Number(url.port) || (url.protocol === 'https:' ? 443 : 80),
    'svc.delivery.id': delivery.id,
    'svc.event.type': delivery.type,
  });
  const end = ({ status, error }: PostResult): void => {
    const attributes = status === null ? {} : { 'http.response.status_code': status };
    span.end({ attributes, error: error ?? undefined });
  };
  return { trace: span.trace, end };
}
