// The part of a generated client that is the same for every tenant: types of pages and errors, and the
// function that sends requests. A text, since it is not this program's code but what it writes; it uses
// `fetch` and `URL` only. Contract: interface#mcp.

/** Goes before the types of the entities. */
export const CLIENT_RUNTIME = `
export type Json = string | number | boolean | null | Json[] | { [key: string]: Json };

export interface SystemFields {
  id: string;
  entityId: string;
  /** ISO 8601, UTC. */
  createdAt: string;
  updatedAt: string;
  createdBy: string | null;
  updatedBy: string | null;
}

export type SystemKey = keyof SystemFields;

export interface Page<T> {
  items: T[];
  total: number | null;
  page: number;
  limit: number;
  totalPages: number | null;
  nextCursor?: string | null;
}

export interface ListOptions<Key extends string> {
  page?: number;
  /** 1 to 100. */
  limit?: number;
  sort?: Key | \`-\${Key}\`;
  order?: "asc" | "desc";
  search?: string;
  /** Such as: status = "open" AND amount > 10 */
  filters?: string;
  cursor?: string;
  count?: "exact" | "none";
}

/** What the service refused, and why. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly details: readonly { path: string; message: string }[] = [],
    readonly requestId?: string,
  ) {
    super(message);
    this.name = "ApiError";
  }
}

export interface ClientOptions {
  /** Where the service is; default: where the client was generated. */
  baseUrl?: string;
  headers: Record<string, string>;
  fetch?: (url: string, init: RequestOptions) => Promise<Response>;
}

export interface RequestOptions {
  method: string;
  headers: Record<string, string>;
  body?: string;
  signal?: AbortSignal;
}

type Parameters = { [name: string]: string | number | undefined };

interface Envelope {
  data?: unknown;
  error?: { code?: string; message?: string; details?: { path: string; message: string }[]; requestId?: string };
}

function sender(options: ClientOptions & { baseUrl: string; tenant: string }) {
  const request = options.fetch ?? fetch;
  return async function send<T>(
    method: string,
    path: string,
    parameters: object = {},
    body?: object,
  ): Promise<T> {
    const url = new URL(options.baseUrl.replace(/\\/+$/, "") + path);
    for (const [name, value] of Object.entries(parameters as Parameters)) {
      if (value !== undefined) url.searchParams.set(name, String(value));
    }
    const headers: Record<string, string> = { "x-tenant-id": options.tenant, ...options.headers };
    if (body !== undefined) headers["content-type"] = "application/json";
    const answer = await request(url.href, {
      method,
      headers,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    if (!answer.ok) throw await refusal(answer);
    return ((await answer.json()) as Envelope).data as T;
  };
}

async function refusal(answer: Response): Promise<ApiError> {
  const { error = {} } = (await answer.json()) as Envelope;
  return new ApiError(answer.status, error.code ?? "", error.message ?? answer.statusText, error.details, error.requestId);
}

/** Every record of a list, page by page. */
async function* pages<T>(next: (more: { cursor: string }) => Promise<Page<T>>): AsyncGenerator<T> {
  let cursor: string | null = "";
  while (cursor !== null) {
    const page: Page<T> = await next({ cursor });
    yield* page.items;
    cursor = page.nextCursor ?? null;
  }
}
`;
