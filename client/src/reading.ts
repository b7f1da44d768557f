// Lists and single records as the service returns them, and the ETags that came with records. ETags are stored beside the
// records, which stay plain objects: `etagOf` finds the ETag with which an object came.
// Contract: decisions#conditional-requests.
import type { ListOptions, Page } from './record-types.ts';
import type { Answer, QueryValue } from './transport.ts';

export type PageBody = Omit<Page<object>, 'changesCursor'>;

const etags = new WeakMap<object, string>();

/**
 * The ETag with which this very object came: from `get`, `create`, `update`, `upsert`, or from a list with `with: ["etags"]`.
 * Throws for any other object, such as a copy, so that no write silently loses its condition.
 */
export function etagOf(record: object): string {
  const etag = etags.get(record);
  if (etag === undefined) throw new Error('this object came without an ETag');
  return etag;
}

export function recordFrom({ data, headers }: Answer<object>): object {
  const etag = headers.get('etag');
  if (etag !== null) etags.set(data, etag);
  return data;
}

export function pageFrom({ data, headers }: Answer<PageBody>): Page<object> {
  for (const [index, etag] of (data.etags ?? []).entries()) etags.set(data.items[index] as object, etag);
  return { ...data, changesCursor: headers.get('changes-cursor') };
}

/** The parameters of a list, of a read or of an export. */
export function listQuery(options: ListOptions): Record<string, QueryValue> {
  const { signal: _, timeoutMs: __, resolveDepth, ...query } = options;
  return { ...query, resolve_depth: resolveDepth };
}
