// One POST over one connection to a checked address, without redirects, proxies or retries. At most 64 KiB of the
// response are read, and one deadline (ms) covers everything from connecting to the last byte of the response.
// The first KiB is kept as text for the log of attempts. Failures of a receiver are short labels in the result, never exceptions. Contract: decisions#webhook-requests.
import { type ClientRequest, type IncomingMessage, request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import { LIMITS } from '../../limits.ts';
import type { AgentLease } from './keep-alive.ts';
import type { Receiver, ResolvedAddress } from './receiver.ts';
import { ResponseStart } from './response-start.ts';

/** `status` is null without a response; `error` is null when the attempt succeeded. */
export interface PostResult {
  status: number | null;
  error: string | null;
  /** The reused connection was already closed, which says nothing about the receiver. */
  isStale?: boolean;
  /** The start of what the receiver said; null when it said nothing. */
  responseText?: string | null;
}

type Lookup = (
  name: string,
  options: { all?: boolean },
  done: (error: Error | null, address: string | ResolvedAddress[], family?: number) => void,
) => void;

/** Always resolves, at the latest after `timeoutMs`, and releases the lease. */
export function post(
  receiver: Receiver,
  lease: AgentLease,
  headers: Record<string, string>,
  body: string,
  timeoutMs: number,
): Promise<PostResult> {
  return new Promise((resolve) => {
    let status: number | null = null;
    let request: ClientRequest | undefined;
    let isFinished = false;
    const said = new ResponseStart();
    const finish = (error: string | null, isFullyRead = false): void => {
      if (isFinished) return;
      isFinished = true;
      clearTimeout(timer);
      const isStale = status === null && error === CONNECTION_BROKEN && request?.reusedSocket === true;
      resolve({ status, error: error ?? statusError(status), isStale, responseText: said.text() });
      // Only a fully read response leaves the connection reusable.
      if (!isFullyRead) request?.destroy();
      lease.release();
    };
    const timer = setTimeout(() => finish('timeout'), timeoutMs);
    try {
      request = open(receiver, lease, headers);
    } catch (error) {
      finish(errorLabel(error));
      return;
    }
    request.on('error', (error) => finish(errorLabel(error)));
    request.on(
      'information',
      bounded(LIMITS.webhook.informationalMax, () => finish('invalid response')),
    );
    request.on('upgrade', (_, socket) => socket.destroy());
    request.on('response', (response) => {
      status = response.statusCode ?? null;
      read(response, said, finish);
    });
    request.end(body);
  });
}

function open({ url, addresses }: Receiver, { agent }: AgentLease, headers: Record<string, string>): ClientRequest {
  const request = url.protocol === 'https:' ? requestHttps : requestHttp;
  return request({
    protocol: url.protocol,
    hostname: url.hostname.replace(/^\[|\]$/g, ''),
    port: url.port === '' ? undefined : Number(url.port),
    path: `${url.pathname}${url.search}`,
    method: 'POST',
    headers: { ...headers, Host: url.host },
    agent,
    maxHeaderSize: LIMITS.webhook.responseHeaderBytes,
    lookup: pinnedTo(addresses) as never,
  });
}

/** Resolves every name to the checked addresses. */
function pinnedTo(addresses: readonly ResolvedAddress[]): Lookup {
  const [first] = addresses as [ResolvedAddress];
  return (_name, { all }, done) => {
    if (all === true) done(null, [...addresses]);
    else done(null, first.address, first.family);
  };
}

/** Reads the body and keeps its start; a body over the limit does not make the attempt fail. */
function read(
  response: IncomingMessage,
  said: ResponseStart,
  finish: (error: string | null, isFullyRead?: boolean) => void,
): void {
  let size = 0;
  response.on('data', (chunk: Uint8Array) => {
    said.add(chunk);
    size += chunk.byteLength;
    if (size > LIMITS.webhook.responseBytes) finish(null);
  });
  response.on('end', () => (response.complete === false ? finish(CONNECTION_BROKEN) : finish(null, true)));
  response.on('aborted', () => finish(CONNECTION_BROKEN));
  response.on('error', (error) => finish(errorLabel(error)));
}

function bounded(limit: number, exceeded: () => void): () => void {
  let count = 0;
  return () => {
    count += 1;
    if (count > limit) exceeded();
  };
}

function statusError(status: number | null): string | null {
  if (status === null) return 'no response';
  return status >= 200 && status < 300 ? null : `status ${status}`;
}

const CONNECTION_BROKEN = 'connection broken';

const ERROR_LABELS: readonly [RegExp, string][] = [
  [/ECONNREFUSED/, 'connection refused'],
  [/ECONNRESET|EPIPE|ECONNABORTED|socket hang up/i, CONNECTION_BROKEN],
  [/EHOSTUNREACH|ENETUNREACH|EADDRNOTAVAIL/, 'host unreachable'],
  [/ETIMEDOUT/, 'timeout'],
  [/ENOTFOUND|EAI_AGAIN/, 'host not found'],
  [/CERT|SSL|TLS|UNABLE_TO_|SELF_SIGNED|ALTNAME|EPROTO/i, 'bad certificate or TLS'],
  [/HPE_|Parse Error|InvalidHTTP|Malformed/i, 'invalid response'],
];

/** A fixed label for the failure: the delivery log must not repeat what the receiver sent. */
function errorLabel(error: unknown): string {
  const { code, message } = (error ?? {}) as { code?: unknown; message?: unknown };
  const text = `${code} ${message}`;
  return ERROR_LABELS.find(([pattern]) => pattern.test(text))?.[1] ?? 'connection failed';
}
