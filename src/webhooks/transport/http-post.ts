// One POST over one connection to an address that was checked before. No redirect is followed,
// no proxy asked, nothing tried twice; of the answer at most 64 KiB are read, and one deadline (ms)
// holds for all of it, from the connection to the answer's last byte. What goes wrong on the
// receiver's side is data, a short word, and never an exception. Contract: decisions#webhook-requests.
import { type ClientRequest, type IncomingMessage, request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import { LIMITS } from '../../limits.ts';
import type { AgentLease } from './keep-alive.ts';
import type { Resolved } from './receiver.ts';

/** `status` when the receiver answered; `error` when it counts as failed. */
export interface PostResult {
  status: number | null;
  error: string | null;
  /** The receiver had closed the connection, which had served before, by the time it was used: it says nothing of the receiver. */
  isStale?: boolean;
}

type Lookup = (
  name: string,
  options: { all?: boolean },
  done: (error: Error | null, address: string | Resolved[], family?: number) => void,
) => void;

/** Sends and waits for the answer. Always resolves, at the latest after `timeoutMs`. */
export function post(
  url: URL,
  addresses: readonly Resolved[],
  way: AgentLease,
  headers: Record<string, string>,
  body: string,
  timeoutMs: number,
): Promise<PostResult> {
  return new Promise((resolve) => {
    let status: number | null = null;
    let request: ClientRequest | undefined;
    let isOver = false;
    const finish = (error: string | null, isWhole = false): void => {
      if (isOver) return;
      isOver = true;
      clearTimeout(timer);
      const isStale = status === null && error === CONNECTION_BROKEN && request?.reusedSocket === true;
      resolve({ status, error: error ?? statusError(status), isStale });
      // What has been read to its end leaves the connection to the next one.
      if (!isWhole) request?.destroy();
      way.release();
    };
    const timer = setTimeout(() => finish('timeout'), timeoutMs);
    try {
      request = open(url, addresses, way, headers);
    } catch (error) {
      finish(errorLabel(error));
      return;
    }
    request.on('error', (error) => finish(errorLabel(error)));
    request.on(
      'information',
      bounded(LIMITS.webhook.informationalMax, () => finish('bad answer')),
    );
    request.on('upgrade', (_, socket) => socket.destroy());
    request.on('response', (response) => {
      status = response.statusCode ?? null;
      read(response, finish);
    });
    request.end(body);
  });
}

function open(
  url: URL,
  addresses: readonly Resolved[],
  way: AgentLease,
  headers: Record<string, string>,
): ClientRequest {
  const request = url.protocol === 'https:' ? requestHttps : requestHttp;
  return request({
    protocol: url.protocol,
    hostname: url.hostname.replace(/^\[|\]$/g, ''),
    port: url.port === '' ? undefined : Number(url.port),
    path: `${url.pathname}${url.search}`,
    method: 'POST',
    headers: { ...headers, Host: url.host },
    agent: way.agent,
    maxHeaderSize: LIMITS.webhook.answerHeaderBytes,
    lookup: pinnedTo(addresses) as never,
  });
}

/** Answers every lookup with the addresses that were checked. */
function pinnedTo(addresses: readonly Resolved[]): Lookup {
  const [first] = addresses as [Resolved];
  return (_name, { all }, done) => {
    if (all === true) done(null, [...addresses]);
    else done(null, first.address, first.family);
  };
}

/** Reads and drops the body, so that the receiver can finish; past the limit the answer is good as it stands. */
function read(response: IncomingMessage, finish: (error: string | null, isWhole?: boolean) => void): void {
  let size = 0;
  response.on('data', (chunk: Uint8Array) => {
    size += chunk.byteLength;
    if (size > LIMITS.webhook.answerBytes) finish(null);
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
  if (status === null) return 'no answer';
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
  [/HPE_|Parse Error|InvalidHTTP|Malformed/i, 'bad answer'],
];

/** A word for a failed exchange, without anything of the receiver's own making in it. */
function errorLabel(error: unknown): string {
  const { code, message } = (error ?? {}) as { code?: unknown; message?: unknown };
  const text = `${code} ${message}`;
  return ERROR_LABELS.find(([pattern]) => pattern.test(text))?.[1] ?? 'connection failed';
}
