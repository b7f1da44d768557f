// One POST over one connection to a checked address, without redirects, proxies or retries. At most 64 KiB of the
// response are read, and one deadline (ms) covers everything from connecting to the last byte of the response.
// The first KiB is kept as text for the log of attempts. Failures of a receiver are short labels in the result, never exceptions.
// Contract: decisions#webhook-requests.
import { Connection } from './connection.ts';
import type { Connections, Sender } from './connections.ts';
import { CONNECTION_BROKEN, errorLabel } from './error-labels.ts';
import type { Receiver } from './receiver.ts';

/** `status` is null without a response; `error` is null when the attempt succeeded. */
export interface PostResult {
  status: number | null;
  error: string | null;
  /** The reused connection was already closed, which says nothing about the receiver. */
  isStale?: boolean;
  /** The start of what the receiver said; null when it said nothing. */
  responseText?: string | null;
}

/** Always resolves, at the latest after `timeoutMs`. */
export async function post(
  connections: Connections,
  sender: Sender,
  receiver: Receiver,
  headers: Record<string, string>,
  body: string,
  timeoutMs: number,
): Promise<PostResult> {
  const key = connections.keyOf(sender, receiver);
  const startedAt = performance.now();
  try {
    const request = headOf(receiver.url, headers) + body;
    const kept = connections.take(key);
    const connection = kept ?? (await Connection.open(receiver, sender.tenantId, timeoutMs));
    const leftMs = kept === undefined ? Math.max(1, timeoutMs - (performance.now() - startedAt)) : timeoutMs;
    const { status, error, isAnswered, isReusable, responseText } = await connection.exchange(request, leftMs);
    if (isReusable) connections.keep(key, sender, connection);
    const isStale = kept !== undefined && !isAnswered && error === CONNECTION_BROKEN;
    return { status, error: error ?? statusError(status), isStale, responseText };
  } catch (error) {
    return { status: null, error: errorLabel(error) };
  }
}

/** Characters that no header or path may contain: a line break could add headers, or a whole request. */
const FORBIDDEN = /[^\t\x20-\x7e]/;

/** The request up to its body. */
function headOf({ host, pathname, search }: URL, headers: Record<string, string>): string {
  let head = `POST ${pathname}${search} HTTP/1.1`;
  const lines = { Host: host, ...headers };
  for (const name in lines) {
    const line = `${name}: ${lines[name as keyof typeof lines]}`;
    if (FORBIDDEN.test(line)) throw new Error(`a header with a character that is not allowed: ${name}`);
    head += `\r\n${line}`;
  }
  return `${head}\r\n\r\n`;
}

function statusError(status: number | null): string | null {
  if (status === null) return 'no response';
  return status >= 200 && status < 300 ? null : `status ${status}`;
}
