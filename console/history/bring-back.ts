// Brings deleted records back under their ids, each with the values that it had last. Not over a record that somebody has
// brought back before: the version that was deleted goes along as `If-Match`. What did not come back is said with the reason.
import { call, get, post } from '../api/call.ts';
import { ApiError, OfflineError } from '../api/errors.ts';
import { queryClient } from '../api/queries.ts';
import type { Target } from '../grid/write-cells.ts';
import { sayError, saySuccess } from '../parts/toast.tsx';
import { counted } from '../parts/value.ts';
import type { Version } from './versions.ts';

export interface Deleted {
  id: string;
  title: string;
  /** That was deleted; null asks the history for it. */
  version: number | null;
}

const AT_ONCE = 4;
const MOST_TRIES = 5;
/** A list that takes a while says how far it is. */
const SAID_FROM = 50;

/** Throws what the API refuses. */
export async function bringBack({ tenant, path }: Target, { id, version }: Deleted): Promise<void> {
  const place = `${path}/${id}`;
  const last = version ?? (await lastDeleted(tenant, place));
  for (let tries = 1; ; tries += 1) {
    try {
      await post(`${place}/restore`, { version: last }, { tenant, headers: { 'If-Match': `"${last}"` } });
      return;
    } catch (cause) {
      if (!(cause instanceof ApiError) || ![429, 503].includes(cause.status) || tries >= MOST_TRIES) throw cause;
      await new Promise((resolve) => setTimeout(resolve, Math.min(30_000, cause.retryAfterMs ?? 1_000 * 2 ** tries)));
    }
  }
}

/** The version that was deleted. */
async function lastDeleted(tenant: string, place: string): Promise<number> {
  const { items } = await get<{ items: Version[] }>(`${place}/history`, { tenant, query: { limit: 1 } });
  return items[0]?.version ?? 1;
}

/** Brings back what one act deleted, and says what became of it. Resolves to those that wait for a connection. */
export async function bringBackAll(target: Target, label: string, deleted: readonly Deleted[]): Promise<Deleted[]> {
  const failed: { one: Deleted; cause: unknown }[] = [];
  const queue = [...deleted];
  let done = 0;
  const work = async (): Promise<void> => {
    for (let one = queue.shift(); one !== undefined; one = queue.shift()) {
      await bringBack(target, one).catch((cause: unknown) => failed.push({ one: one as Deleted, cause }));
      done += 1;
      if (deleted.length >= SAID_FROM && done % SAID_FROM === 0) {
        saySuccess({ title: `Bringing back ${done} of ${counted(deleted.length, 'record')}…`, kind: 'undone' });
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  void queryClient.invalidateQueries({ refetchType: 'active' });
  const [first] = failed;
  if (first === undefined) {
    const title =
      deleted.length === 1 ? `${deleted[0]?.title} is back.` : `${counted(deleted.length, 'record')} are back.`;
    saySuccess({ title, kind: 'undone' });
    return [];
  }
  const back = deleted.length - failed.length;
  sayError({
    title: back === 0 ? `Not undone: ${label}.` : `${back} of ${counted(deleted.length, 'record')} are back.`,
    description: `${first.one.title}: ${reasonOf(first.cause)}`,
    kind: 'undone',
  });
  return failed.filter(({ cause }) => cause instanceof OfflineError).map(({ one }) => one);
}

function reasonOf(cause: unknown): string {
  if (cause instanceof ApiError && cause.status === 412) return 'somebody has brought it back already.';
  return cause instanceof Error ? cause.message : String(cause);
}

/** The version of an ETag; null for none. */
export function versionOf(etag: string | null): number | null {
  const found = /^"(\d+)(?:-[\w-]+)?"$/.exec(etag ?? '')?.[1];
  return found === undefined ? null : Number(found);
}

/** Gives a record the values of a version; `etag` is that of the record that was seen. Resolves to the record's ETag. */
export async function restore(tenant: string, place: string, version: number, etag: string): Promise<string | null> {
  const headers = { 'If-Match': etag };
  return (await call('POST', `${place}/restore`, { tenant, body: { version }, headers })).etag;
}
