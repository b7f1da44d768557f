// One request to the service, and its repetitions. A GET, and a write that carries an Idempotency-Key, is sent again when there
// was no response or the service asks to come back later. Nothing else is sent again, because it may have been done.
// Failures: `ApiError`, `ConnectionError`, or the reason of the caller's AbortSignal.
import { type Credential, type CredentialSource, credentialHeaders, currentCredential } from './credential.ts';
import { ApiError, ConnectionError, errorOf, invalidResponse, parsed } from './errors.ts';
import { backOffMs, Deadline, pause } from './waiting.ts';

export interface ClientOptions {
  /** The service's address, including the path under which it is served, if any. */
  url: string;
  /** The slug of the tenant; not needed with a credential that belongs to one. */
  tenant?: string;
  credential?: CredentialSource;
  /** Sent with each request. */
  headers?: Record<string, string>;
  /** Replaces the global `fetch`. */
  fetch?: (url: string, init: RequestInit) => Promise<Response>;
  /** Replaces the global `WebSocket`, which Node.js has from version 22 on: for `live` with `transport: "websocket"`. */
  WebSocket?: new (
    url: string,
  ) => WebSocketLike;
  /** How often a request that can be repeated is sent again; default 3. */
  retries?: number;
  /** The time limit of one try, in milliseconds; default 60,000; 0: no limit. */
  timeoutMs?: number;
  /** Called before each pause. */
  onRetry?: (retry: Retry) => void;
}

/** The part of a WebSocket that is used. */
export interface WebSocketLike {
  readonly readyState: number;
  addEventListener(type: string, listener: (event: { data?: unknown; code?: number; reason?: string }) => void): void;
  send(text: string): void;
  close(code?: number): void;
}

/** Another try that is about to be made. */
export interface Retry {
  error: Error;
  waitMs: number;
  /** 1 before the second try. */
  attempt: number;
}

export type QueryValue = string | number | boolean | null | undefined | readonly (string | number)[];

export interface CallOptions {
  signal?: AbortSignal | undefined;
  timeoutMs?: number;
}

export interface RequestOptions extends CallOptions {
  /** Null and undefined are left out, lists are joined by commas, an empty text is sent. */
  query?: Record<string, QueryValue>;
  /** The body: texts, bytes and streams are sent as they are, anything else as JSON. */
  body?: unknown;
  headers?: Record<string, string>;
  /** Replaces the client's tenant; null: none. */
  tenant?: string | null;
  /** Whether to send the request without the client's credential. */
  isOpen?: boolean;
  /** Whether the request can be sent again; default: a GET, or a request with an Idempotency-Key. */
  isRepeatable?: boolean;
  retries?: number;
}

/** A JSON response: the member `data` of the envelope, or the whole body where there is no envelope. */
export interface Answer<T> {
  data: T;
  status: number;
  headers: Headers;
  /** The effects that a write with `dryRun=true` would have. */
  dryRun?: DryRun;
}

/** The effects that a write would have. */
export interface DryRun {
  /** Names of the rules that would run. */
  rules: string[];
  events: number;
  webhooks: number;
  /** Things that would no longer work. */
  breaks: { kind: 'view' | 'role' | 'rule' | 'record'; name: string; text: string; count?: number }[];
}

const RETRIES = 3;
const TIMEOUT_MS = 60_000;
/** If retries are limited, the call fails instead of waiting longer than this. */
const WAIT_MAX_MS = 30_000;
const BUSY = [408, 425, 429, 500, 502, 503, 504];

export class Transport {
  readonly #base: string;

  constructor(readonly options: ClientOptions) {
    this.#base = options.url.replace(/\/+$/, '');
  }

  /** The absolute address of a path, for a WebSocket. */
  socketAddress(path: string): string {
    const here = (globalThis as { location?: { href: string } }).location?.href;
    const url = new URL(this.#base + path, here);
    url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
    return url.href;
  }

  credential(): Promise<Credential | undefined> {
    return currentCredential(this.options.credential);
  }

  /** The data of a JSON response, with status and headers. */
  request<T>(method: string, path: string, options: RequestOptions = {}): Promise<Answer<T>> {
    return this.#repeated(method, path, options, (response) => answerOf<T>(response));
  }

  /** The response as soon as its headers have arrived; the time limit does not apply to its body. */
  fetch(method: string, path: string, options: RequestOptions = {}): Promise<Response> {
    return this.#repeated(method, path, options, async (response) => response);
  }

  async #repeated<T>(
    method: string,
    path: string,
    options: RequestOptions,
    read: (response: Response) => Promise<T>,
  ): Promise<T> {
    const { signal, retries = this.options.retries ?? RETRIES } = options;
    const isRepeatable = options.isRepeatable ?? isSafe(method, options.headers);
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#authorized(method, path, options, read);
      } catch (error) {
        const waitMs = backOffMs(attempt - 1, error instanceof ApiError ? error.retryAfterMs : null);
        const isLast = attempt > retries || (waitMs > WAIT_MAX_MS && retries !== Number.POSITIVE_INFINITY);
        if (!isRepeatable || isLast || !isPassing(error) || signal?.aborted) throw error;
        this.options.onRetry?.({ error, waitMs, attempt });
        await pause(waitMs, signal);
      }
    }
  }

  /** A credential from a function may have expired: after a 401 the function is called again. */
  async #authorized<T>(
    method: string,
    path: string,
    options: RequestOptions,
    read: (response: Response) => Promise<T>,
  ): Promise<T> {
    const credential = options.isOpen ? undefined : await this.credential();
    try {
      return await this.#once(method, path, options, credential, read);
    } catch (error) {
      const isRefused = error instanceof ApiError && error.status === 401 && !options.isOpen;
      if (!isRefused || typeof this.options.credential !== 'function' || isStream(options.body)) throw error;
      const other = await this.credential();
      if (JSON.stringify(other) === JSON.stringify(credential)) throw error;
      return this.#once(method, path, options, other, read);
    }
  }

  async #once<T>(
    method: string,
    path: string,
    options: RequestOptions,
    credential: Credential | undefined,
    read: (response: Response) => Promise<T>,
  ): Promise<T> {
    const { signal, timeoutMs = this.options.timeoutMs ?? TIMEOUT_MS } = options;
    signal?.throwIfAborted();
    const deadline = new Deadline(signal);
    const init = this.#init(method, options, credential, deadline.signal);
    deadline.set(timeoutMs);
    try {
      const response = await (this.options.fetch ?? fetch)(this.#base + path + queryText(options.query), init);
      if (!response.ok && response.status !== 304) throw errorOf(response, await response.text());
      return await read(response);
    } catch (error) {
      if (error instanceof ApiError) throw error;
      signal?.throwIfAborted();
      const reason = deadline.isOver ? `no answer within ${timeoutMs} ms` : textOf(error);
      throw new ConnectionError(`${method} ${path}: ${reason}`, { cause: error });
    } finally {
      deadline.clear();
    }
  }

  #init(method: string, options: RequestOptions, credential: Credential | undefined, signal: AbortSignal): RequestInit {
    const { body, tenant = this.options.tenant } = options;
    const isJson = body !== undefined && !isRaw(body);
    return {
      method,
      // Throws for an invalid header value, which is not a failure of the connection.
      headers: new Headers({
        ...(tenant ? { 'X-Tenant-ID': tenant } : {}),
        ...credentialHeaders(credential),
        ...(isJson ? { 'Content-Type': 'application/json' } : {}),
        ...this.options.headers,
        ...options.headers,
      }),
      ...(body === undefined ? {} : { body: isJson ? JSON.stringify(body) : (body as RequestInit['body'] & {}) }),
      // Node.js requires it for a body that is a stream.
      ...(isStream(body) ? { duplex: 'half' } : {}),
      signal,
      credentials: 'omit',
      cache: 'no-store',
      // Another host must not get the credential.
      redirect: 'error',
    };
  }
}

async function answerOf<T>(response: Response): Promise<Answer<T>> {
  const { status, headers } = response;
  const text = await response.text();
  if (text === '' && (status === 204 || status === 304)) return { data: undefined as T, status, headers };
  const body = parsed(text);
  if (body === undefined) throw invalidResponse(response, text);
  const { success, data, dryRun } = (body ?? {}) as { success?: unknown; data?: T; dryRun?: DryRun };
  const answer = { data: success === true && data !== undefined ? data : (body as T), status, headers };
  return dryRun === undefined ? answer : { ...answer, dryRun };
}

function isSafe(method: string, headers: Record<string, string> = {}): boolean {
  if (method === 'GET' || method === 'HEAD') return true;
  return Object.keys(headers).some((name) => name.toLowerCase() === 'idempotency-key');
}

/** Whether another try may succeed. A conflict with a retry time means that the first request is still running. */
export function isPassing(error: unknown): error is Error {
  if (error instanceof ConnectionError) return true;
  if (!(error instanceof ApiError)) return false;
  return BUSY.includes(error.status) || (error.status === 409 && error.retryAfterMs !== null);
}

export function queryText(query: Record<string, QueryValue> = {}): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null) parameters.set(name, String(value));
  }
  const text = parameters.toString();
  return text === '' ? '' : `?${text}`;
}

function isRaw(body: unknown): boolean {
  return (
    typeof body === 'string' ||
    body instanceof Blob ||
    body instanceof ArrayBuffer ||
    ArrayBuffer.isView(body) ||
    body instanceof FormData ||
    isStream(body)
  );
}

function isStream(body: unknown): body is ReadableStream<Uint8Array> {
  return body instanceof ReadableStream;
}

/** The text of an error; an error of `fetch` has the reason in its cause. */
function textOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : error.message;
}
