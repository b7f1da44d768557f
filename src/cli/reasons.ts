// Why a connection failed, in a few words: runtimes report it with their own codes and messages.
// The deepest cause of an error is the informative one.
// An unknown cause is shown as it is.

const REASONS: readonly [RegExp, string][] = [
  [/ECONNREFUSED|ConnectionRefused|Unable to connect/i, 'nothing listens there'],
  [/redirect/i, 'it redirects to another address; give that one'],
  [/ENOTFOUND|EAI_AGAIN|DNS|resolve/i, 'the host name is not known'],
  [/CERT|SELF_SIGNED|UNABLE_TO_VERIFY/i, 'its certificate is not trusted'],
  [/SSL|TLS|EPROTO/i, 'it does not speak TLS as expected'],
  [/ETIMEDOUT|TimeoutError|timed out|no answer within/i, 'no answer in time'],
  [/ECONNRESET|socket|closed/i, 'the connection was cut'],
];

export function reasonOf(error: unknown): string {
  let deepest = error;
  while (deepest instanceof Error && deepest.cause instanceof Error) deepest = deepest.cause;
  const { code, message } = deepest as { code?: string; message?: string };
  return REASONS.find(([pattern]) => pattern.test(`${code} ${message}`))?.[1] ?? message ?? String(deepest);
}
