// Fixed labels for failures of receivers: the delivery log must not repeat what a receiver has sent.
// An error that no label names is `connection failed`.
// Contract: decisions#webhook-requests.
import { InvalidResponse } from './response-reader.ts';

export const CONNECTION_BROKEN = 'connection broken';

const LABELS: readonly [RegExp, string][] = [
  [/ECONNREFUSED/, 'connection refused'],
  [/ECONNRESET|EPIPE|ECONNABORTED|socket hang up/i, CONNECTION_BROKEN],
  [/EHOSTUNREACH|ENETUNREACH|EADDRNOTAVAIL/, 'host unreachable'],
  [/ETIMEDOUT/, 'timeout'],
  [/CERT|SSL|TLS|UNABLE_TO_|SELF_SIGNED|ALTNAME|EPROTO/i, 'bad certificate or TLS'],
];

export function errorLabel(error: unknown): string {
  if (error instanceof InvalidResponse) return error.message;
  const { code, message } = (error ?? {}) as { code?: unknown; message?: unknown };
  const text = `${code} ${message}`;
  return LABELS.find(([pattern]) => pattern.test(text))?.[1] ?? 'connection failed';
}
