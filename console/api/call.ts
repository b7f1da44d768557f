// The only place of the console that calls the service, by the product's own client. Adds the mark of the console, the role
// to see as and, on creations, an Idempotency-Key; after a 401 waits for the person to sign in and calls again; keeps the
// last calls for "Copy as curl". Queries are repeated by the query client, and nothing else.
import { credentialHeaders } from '../../client/src/credential.ts';
import { ConnectionError } from '../../client/src/errors.ts';
import { type DryRun, queryText, type RequestOptions, Transport } from '../../client/src/transport.ts';
import { ApiError, OfflineError } from './errors.ts';
import { expired, session } from './session.ts';
import { Store } from './store.ts';

export interface CallOptions {
  /** Members that are undefined, null or empty are left out, but for those named in `keepEmpty`. */
  query?: Record<string, string | number | boolean | null | undefined>;
  /** Query members that are sent even when empty, such as the first page's `cursor`. */
  keepEmpty?: readonly string[];
  body?: unknown;
  headers?: Record<string, string>;
  /** The tenant to act in; null for calls of the platform. */
  tenant?: string | null;
  signal?: AbortSignal | undefined;
  /** Answered for the person, even while the tenant is seen as a role: work in the background. */
  isOwn?: boolean;
  /** Without the session's credential: sign-in and the pages for links in mails. */
  isOpen?: boolean;
  /** A 401 is an answer of this call, not the end of the session: it lacks a second credential. */
  is401Refusal?: boolean;
}

export interface Answer<T> {
  data: T;
  status: number;
  etag: string | null;
  headers: Headers;
  /** Of a write with `dryRun=true`. */
  dryRun?: DryRun | undefined;
}

/** A call as it was made, without the credential. */
export interface LoggedCall {
  method: string;
  path: string;
  headers: Record<string, string>;
  body: unknown;
  status: number | null;
  ms: number;
}

const KEPT_CALLS = 50;
/** The header of the second credential that calls about admin keys need. */
export const ADMIN_KEY = 'X-Admin-Key';
/** The header of a GET that is answered as a role would be answered. */
export const AS_ROLE = 'X-Svc-As-Role';

/** The last calls, newest first. */
export const calls = new Store<readonly LoggedCall[]>([]);
/** False after a call that got no answer, until one gets through. */
export const online = new Store(true);
/** The role whose view of the tenant is shown; set from `?as=` and sent on every GET. */
export const seenAs = new Store<string | null>(null);

const transport = new Transport({
  url: '',
  credential: () => session.get()?.credential ?? '',
  retries: 0,
  timeoutMs: 0,
});

/** The answer of a call; throws `ApiError`, `OfflineError`, or an abort. */
export async function call<T>(method: string, path: string, options: CallOptions = {}): Promise<Answer<T>> {
  const request = requestOf(method, options);
  const { data, status, headers, dryRun } = await answered(method, path, request, options, () =>
    transport.request<T>(method, path, request),
  );
  return { data, status, etag: headers.get('etag'), headers, dryRun };
}

/** The response of a GET as it comes, for files; throws like `call`. */
export function download(path: string, options: CallOptions = {}): Promise<Response> {
  const request = requestOf('GET', options);
  return answered('GET', path, request, options, () => transport.fetch('GET', path, request));
}

/** Notes each try, and tries again once the person has signed in again. */
async function answered<T extends { status: number }>(
  method: string,
  path: string,
  request: RequestOptions,
  { isOpen, is401Refusal, signal }: CallOptions,
  send: () => Promise<T>,
): Promise<T> {
  for (;;) {
    const log = logOf(method, path, request);
    try {
      const answer = await send();
      log(answer.status);
      return answer;
    } catch (cause) {
      if (cause instanceof ConnectionError) {
        log(null);
        throw new OfflineError();
      }
      if (!(cause instanceof ApiError)) throw cause;
      log(cause.status);
      if (cause.status !== 401 || isOpen || is401Refusal || session.get() === null) throw cause;
    }
    await signedInAgain(signal);
  }
}

export const get = async <T>(path: string, options?: CallOptions): Promise<T> =>
  (await call<T>('GET', path, options)).data;
export const post = async <T>(path: string, body?: unknown, options?: CallOptions): Promise<T> =>
  (await call<T>('POST', path, { ...options, body })).data;
export const patch = async <T>(path: string, body: unknown, options?: CallOptions): Promise<T> =>
  (await call<T>('PATCH', path, { ...options, body })).data;
export const put = async <T>(path: string, body: unknown, options?: CallOptions): Promise<T> =>
  (await call<T>('PUT', path, { ...options, body })).data;
export const del = async <T>(path: string, options?: CallOptions): Promise<T> =>
  (await call<T>('DELETE', path, options)).data;

/** Notes a call once it has its status, or null without an answer. */
function logOf(method: string, path: string, { query, body, headers, isOpen }: RequestOptions) {
  const shown = { ...headers };
  if (ADMIN_KEY in shown) shown[ADMIN_KEY] = '$TDS_ADMIN_KEY';
  for (const [name, value] of Object.entries(isOpen ? {} : credentialHeaders(session.get()?.credential))) {
    shown[name] = value.startsWith('Bearer ') ? 'Bearer $TDS_KEY' : '$TDS_KEY';
  }
  const began = performance.now();
  return (status: number | null): void => {
    online.set(status !== null);
    const logged = {
      method,
      path: path + queryText(query),
      headers: shown,
      body,
      status,
      ms: performance.now() - began,
    };
    calls.set([logged, ...calls.get()].slice(0, KEPT_CALLS));
  };
}

function requestOf(method: string, options: CallOptions): RequestOptions {
  const { query = {}, keepEmpty = [], body, signal, isOpen = false } = options;
  const isSent = ([name, value]: [string, unknown]): boolean => value !== '' || keepEmpty.includes(name);
  return {
    query: Object.fromEntries(Object.entries(query).filter(isSent)),
    body,
    headers: headersOf(method, options),
    signal,
    isOpen,
  };
}

/** A bulk call whose operations succeed or fail each on its own; the service takes no Idempotency-Key for it. */
function isInParts(body: unknown): boolean {
  return typeof body === 'object' && body !== null && 'atomic' in body && body.atomic === false;
}

function headersOf(method: string, options: CallOptions): Record<string, string> {
  const role = seenAs.get();
  const isKept = method === 'POST' && !options.isOpen && !isInParts(options.body);
  return {
    'X-Svc-Client': 'console',
    ...(options.tenant ? { 'X-Tenant-ID': options.tenant } : {}),
    ...(method === 'GET' && role !== null && options.tenant && !options.isOwn ? { [AS_ROLE]: role } : {}),
    ...(isKept ? { 'Idempotency-Key': crypto.randomUUID() } : {}),
    ...(options.body === undefined ? {} : { 'Content-Type': 'application/json' }),
    ...options.headers,
  };
}

/** Opens the sign-in dialog and resolves when it has been used; rejects when the call is aborted or the person signs out. */
function signedInAgain(signal: AbortSignal | undefined): Promise<void> {
  expired.set(true);
  return new Promise((resolve, reject) => {
    const end = (): void => {
      if (expired.get()) return;
      stop();
      if (session.get() === null) reject(new DOMException('signed out', 'AbortError'));
      else resolve();
    };
    const abort = (): void => {
      stop();
      reject(new DOMException('aborted', 'AbortError'));
    };
    const unsubscribe = expired.subscribe(end);
    const stop = (): void => {
      unsubscribe();
      signal?.removeEventListener('abort', abort);
    };
    signal?.addEventListener('abort', abort);
  });
}
