// The only place of the console that calls the service. Adds the credential, the mark of the console, the role to see
// as and, on creations, an Idempotency-Key; turns refusals into `ApiError`; after a 401 waits for the person to sign in
// and calls again; keeps the last calls for "Copy as curl".

import type { Problem } from './answers.ts';
import { ApiError, isAborted, OfflineError } from './errors.ts';
import { credentialHeader, expired, session } from './session.ts';
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

/** The answer of a call; throws `ApiError`, `OfflineError`, or an abort. */
export async function call<T>(method: string, path: string, options: CallOptions = {}): Promise<Answer<T>> {
  return answerOf<T>(await respond(method, path, options));
}

/** The response of a GET as it comes, for files; throws like `call`. */
export async function download(path: string, options: CallOptions = {}): Promise<Response> {
  const response = await respond('GET', path, options);
  if (!response.ok) await answerOf(response);
  return response;
}

async function respond(method: string, path: string, options: CallOptions): Promise<Response> {
  const key = method === 'POST' && !isInParts(options.body) ? crypto.randomUUID() : null;
  for (;;) {
    const response = await send(method, path, options, key);
    if (response.status !== 401 || options.isOpen || options.is401Refusal || session.get() === null) return response;
    await signedInAgain(options.signal);
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

async function send(method: string, path: string, options: CallOptions, key: string | null): Promise<Response> {
  const url = path + queryOf(options);
  const headers = headersOf(method, options, key);
  const shown = { ...headers };
  if (ADMIN_KEY in shown) shown[ADMIN_KEY] = '$TDS_ADMIN_KEY';
  const current = session.get();
  if (!options.isOpen && current !== null) {
    const [name, value] = credentialHeader(current.kind, current.credential);
    headers[name] = value;
    shown[name] = value.startsWith('Bearer ') ? 'Bearer $TDS_KEY' : '$TDS_KEY';
  }
  const began = performance.now();
  const log = (status: number | null): void => {
    const logged = { method, path: url, headers: shown, body: options.body, status, ms: performance.now() - began };
    calls.set([logged, ...calls.get()].slice(0, KEPT_CALLS));
  };
  try {
    const { body } = options;
    const response = await fetch(url, {
      method,
      headers,
      ...(body === undefined ? {} : { body: isRaw(body) ? body : JSON.stringify(body) }),
      ...(options.signal === undefined ? {} : { signal: options.signal }),
      credentials: 'omit',
      cache: 'no-store',
      redirect: 'error',
    });
    log(response.status);
    online.set(true);
    return response;
  } catch (cause) {
    if (isAborted(cause)) throw cause;
    log(null);
    online.set(false);
    throw new OfflineError();
  }
}

/** A bulk call whose operations succeed or fail each on its own; the service takes no Idempotency-Key for it. */
function isInParts(body: unknown): boolean {
  return typeof body === 'object' && body !== null && 'atomic' in body && body.atomic === false;
}

function isRaw(body: unknown): body is Blob | string {
  return body instanceof Blob || typeof body === 'string';
}

function headersOf(method: string, options: CallOptions, key: string | null): Record<string, string> {
  const role = seenAs.get();
  return {
    'X-Svc-Client': 'console',
    ...(options.tenant ? { 'X-Tenant-ID': options.tenant } : {}),
    ...(method === 'GET' && role !== null && options.tenant && !options.isOwn ? { [AS_ROLE]: role } : {}),
    ...(key !== null && !options.isOpen ? { 'Idempotency-Key': key } : {}),
    ...(options.body === undefined ? {} : { 'Content-Type': 'application/json' }),
    ...options.headers,
  };
}

function queryOf({ query = {}, keepEmpty = [] }: CallOptions): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined || value === null || (value === '' && !keepEmpty.includes(name))) continue;
    parameters.set(name, String(value));
  }
  const text = parameters.toString();
  return text === '' ? '' : `?${text}`;
}

async function answerOf<T>(response: Response): Promise<Answer<T>> {
  const { status, headers } = response;
  const text = await response.text();
  const body = headers.get('content-type')?.startsWith('application/json') ? JSON.parse(text) : text;
  if (!response.ok) throw refusal(status, body, headers);
  const isEnveloped = typeof body === 'object' && body !== null && body.success === true && 'data' in body;
  return { data: (isEnveloped ? body.data : body) as T, status, etag: headers.get('etag'), headers };
}

interface ErrorBody {
  error?: { code?: string; message?: string; details?: Problem[]; requestId?: string };
}

function refusal(status: number, body: unknown, headers: Headers): ApiError {
  const { code, message, details, requestId } = (body as ErrorBody | null)?.error ?? {};
  const wait = Number(headers.get('retry-after'));
  return new ApiError(
    status,
    code ?? `HTTP_${status}`,
    message ?? `The service answered ${status}.`,
    details ?? [],
    requestId ?? headers.get('x-request-id'),
    Number.isFinite(wait) && wait > 0 ? wait : null,
  );
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
