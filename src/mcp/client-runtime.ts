// The first part of a generated client, the same for every tenant: types of pages and errors, and the function
// that sends requests. A string, because it is generated code, not code of this service. Uses only `fetch` and
// `URL`. Contract: interface#mcp.

/** Placed before the entity types in the generated file. */
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
  /** A condition, such as: status = "open" AND amount > 10 */
  filters?: string;
  cursor?: string;
  count?: "exact" | "none";
}

/** An error response of the service. */
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
  /** The service's address; defaults to the one that generated the client. */
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

function requestSender(options: ClientOptions & { baseUrl: string; tenant: string }) {
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
    const response = await request(url.href, {
      method,
      headers,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    if (!response.ok) throw await apiError(response);
    return ((await response.json()) as Envelope).data as T;
  };
}

async function apiError(response: Response): Promise<ApiError> {
  const { error = {} } = (await response.json()) as Envelope;
  return new ApiError(response.status, error.code ?? "", error.message ?? response.statusText, error.details, error.requestId);
}

/** All records of a list, fetched page by page. */
async function* pages<T>(next: (more: { cursor: string }) => Promise<Page<T>>): AsyncGenerator<T> {
  let cursor: string | null = "";
  while (cursor !== null) {
    const page: Page<T> = await next({ cursor });
    yield* page.items;
    cursor = page.nextCursor ?? null;
  }
}
`;
