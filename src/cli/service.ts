// The service as commands call it: the client, with short methods for calls that need only the data of an answer. Calls are not
// retried, so that a wrong address is reported at once; only following changes and walking lists continue through failures.
// Failures: those of the client.
import {
  type Answer,
  type AnySchema,
  type Client,
  ConnectionError,
  createClient,
  type RequestOptions,
  type Retry,
} from '../../client/src/client.ts';
import { Deadline } from '../../client/src/waiting.ts';
import { Failure } from './failures.ts';
import { reasonOf } from './reasons.ts';

export interface Target {
  url: string;
  tenant: string | undefined;
  credential: string | undefined;
}

export type Query = NonNullable<RequestOptions['query']>;

export class Service {
  readonly client: Client<AnySchema>;

  /** `onRetry` is called before each pause. */
  constructor(
    readonly target: Target,
    readonly signal: AbortSignal,
    readonly onRetry: (retry: Retry) => void = () => undefined,
  ) {
    const { url, tenant, credential } = target;
    this.client = createClient({
      url,
      ...(tenant === undefined ? {} : { tenant }),
      ...(credential === undefined ? {} : { credential }),
      retries: 0,
      onRetry,
    });
  }

  get<T>(path: string, query: Query = {}): Promise<T> {
    return this.call('GET', path, { query });
  }

  post<T>(path: string, body: object = {}): Promise<T> {
    return this.call('POST', path, { body });
  }

  patch<T>(path: string, body: object): Promise<T> {
    return this.call('PATCH', path, { body });
  }

  delete<T>(path: string, query: Query = {}): Promise<T> {
    return this.call('DELETE', path, { query });
  }

  async call<T>(method: string, path: string, options: RequestOptions): Promise<T> {
    return (await this.answer<T>(method, path, options)).data;
  }

  answer<T>(method: string, path: string, options: RequestOptions): Promise<Answer<T>> {
    return this.#reached(this.client.request<T>(method, path, { signal: this.signal, ...options }));
  }

  /** The bytes of a download as they arrive; fails if nothing more arrives for two minutes. */
  async download(path: string, query: Query = {}): Promise<AsyncIterable<Uint8Array>> {
    const silence = new Deadline(this.signal);
    const response = await this.#reached(this.client.fetch('GET', path, { signal: silence.signal, query }));
    return withSilenceLimit(bytesOf(response), silence, SILENCE_MS);
  }

  /** Adds to the error which address could not be reached, since each profile has its own. */
  async #reached<T>(answer: Promise<T>): Promise<T> {
    try {
      return await answer;
    } catch (error) {
      if (!(error instanceof ConnectionError)) throw error;
      const message = `${this.target.url} cannot be reached: ${reasonOf(error)}`;
      throw new Failure(message, '`tds doctor` says what to check');
    }
  }

  /** Sends a body of any length; the answer comes when all of it has been read. */
  upload<T>(path: string, body: AsyncIterable<Uint8Array>, contentType: string, query: Query = {}): Promise<T> {
    const headers = { 'Content-Type': contentType };
    return this.call('POST', path, { body: streamOf(body), headers, query, timeoutMs: 0 });
  }
}

const SILENCE_MS = 120_000;

/** Passes the bytes on. The wait for each chunk has a deadline, which cancels the request. */
export async function* withSilenceLimit(
  bytes: AsyncIterable<Uint8Array>,
  silence: Deadline,
  silenceMs: number,
): AsyncGenerator<Uint8Array> {
  try {
    silence.set(silenceMs);
    for await (const chunk of bytes) {
      silence.clear();
      yield chunk;
      silence.set(silenceMs);
    }
  } catch (error) {
    if (!silence.isOver) throw error;
    throw new Failure(
      `the service has sent nothing for ${silenceMs / 1_000} s`,
      'run it again; `tds doctor` says what to check',
    );
  } finally {
    silence.clear();
  }
}

export function bytesOf({ body }: Response): AsyncIterable<Uint8Array> {
  return (body ?? new Blob().stream()) as unknown as AsyncIterable<Uint8Array>;
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** Keys, JWTs and admin sessions have known forms; any other text is a super-admin secret. */
export function isSuperAdmin(credential: string | undefined): boolean {
  return credential !== undefined && !/^(svc_|eyJ)/.test(credential) && !UUID.test(credential);
}

function streamOf(body: AsyncIterable<Uint8Array>): ReadableStream<Uint8Array> {
  const chunks = body[Symbol.asyncIterator]();
  return new ReadableStream({
    pull: async (controller) => {
      const { value, done } = await chunks.next();
      if (done) controller.close();
      else controller.enqueue(value);
    },
    cancel: async () => void (await chunks.return?.()),
  });
}
