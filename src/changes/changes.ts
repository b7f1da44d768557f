// Answers requests for the changes after a cursor, as the caller sees them, and waits for the next changes.
// Failures: 400 with every problem, 403, 410, 429 when too many wait, 503.
// Contract: feed#guarantee, feed#long-polls, feed#items.
import { rowsOfPage } from '../access/bot-limits.ts';
import type { TenantCaller } from '../access/caller.ts';
import type { App } from '../app.ts';
import { clientGone, type Problem, ServiceError } from '../errors.ts';
import { EARLIEST, positionAt } from '../events/feed.ts';
import { feedHeadsOf } from '../events/feed-heads.ts';
import { sized } from '../http/bounded-response.ts';
import { type ChangesCursor, openCursor, rightsKeyOf, sealCursor } from '../http/changes-cursor.ts';
import { LIMITS } from '../limits.ts';
import { Semaphore } from '../runtime/concurrency.ts';
import { giveWay } from '../runtime/event-loop.ts';
import { currentWork } from '../runtime/work.ts';
import type { Follower } from './follower.ts';
import type { ChangeItem, ChangesPage } from './item.ts';
import { type Entry, type FeedPage, PageReader } from './page.ts';
import { type ChangesQuery, readSelection, wantedOf } from './selection.ts';
import { changeWaitsOf, type Wait } from './waits.ts';

const { limitDefault, pageBytes, scanMs, waitingPerTenant: shareWaitingMax } = LIMITS.changes;
/** One change may wake a thousand requests. They read in turn, since many would otherwise wait too long for a connection. */
const woken = new Semaphore({ slots: 8, operatorSlots: 0, shareWaitingMax });

/** `bytesMax` bounds the items as JSON. */
export async function readChanges(
  app: App,
  { caller, now }: Follower,
  query: ChangesQuery,
  bytesMax: number = pageBytes,
): Promise<ChangesPage> {
  const wanted = wantedOf(query);
  const limit = rowsOfPage(caller, query.limit, limitDefault);
  const { cursor, problem } = cursorOf(app, caller, query.since);
  const selection = await readSelection(app, caller, wanted, problem);
  if (cursor === null) {
    const position = positionAt(await feedHeadsOf(app).take());
    const nextCursor = sealCursor(app, caller.tenant.id, { position, rightsKey: rightsKeyOf(caller) });
    return { items: [], nextCursor, hasMore: false };
  }
  const pages = new PageReader(app, { entries: limit, bytes: bytesMax, scanMs });
  const deadline = performance.now() + (query.wait ?? 0) * 1_000;
  let wait: Wait | undefined;
  let page = await pages.page(caller, selection, cursor);
  const next = async (): Promise<FeedPage> => {
    const later = await now();
    return pages.page(later, await readSelection(app, later, wanted), page.cursor);
  };
  try {
    for (;;) {
      const isLate = performance.now() >= deadline || changeWaitsOf(app).isClosing;
      if (page.entries.length > 0 || isLate) return shown(app, caller.tenant.id, page);
      if (page.hasMore) {
        // Changes that the caller may not see do not end the waiting, however many they are, so the client may have gone.
        if (currentWork().signal?.().aborted === true) throw clientGone();
        page = await next();
      } else if (wait === undefined || !wait.isListening) {
        wait?.leave();
        wait = undefined;
        wait = await changeWaitsOf(app).enter(caller.tenant.id);
        // Changes that were committed before the process listened wake nobody, so read once more.
        page = await next();
      } else {
        await wait.next(deadline - performance.now(), currentWork().signal?.());
        if (currentWork().signal?.().aborted === true) throw clientGone();
        page = await woken.run(next);
      }
    }
  } finally {
    wait?.leave();
  }
}

/** In place of a cursor: begins with the oldest change that is kept. */
export const EARLIEST_CURSOR = 'earliest';

/**
 * The cursor to begin at; null without one. A text that is not a cursor is a problem of the request, reported with the others.
 */
export function cursorOf(
  app: App,
  caller: TenantCaller,
  since: string | null = '',
): { cursor: ChangesCursor | null; problem: readonly Problem[] } {
  if (!since) return { cursor: null, problem: [] };
  if (since === EARLIEST_CURSOR) return { cursor: { position: EARLIEST, rightsKey: rightsKeyOf(caller) }, problem: [] };
  try {
    return { cursor: openCursor(app, caller.tenant, since), problem: [] };
  } catch (error) {
    if (!(error instanceof ServiceError) || error.details === undefined) throw error;
    return { cursor: null, problem: error.details };
  }
}

async function shown(
  app: App,
  tenantId: string,
  { entries, cursor, hasMore, received }: FeedPage,
): Promise<ChangesPage> {
  const items: ChangeItem[] = [];
  for (const { cursor: after, ...entry } of entries) {
    const turn = giveWay();
    if (turn !== undefined) await turn;
    items.push({ cursor: sealCursor(app, tenantId, after), ...itemOf(entry) });
  }
  return sized({ items, nextCursor: sealCursor(app, tenantId, cursor), hasMore }, received);
}

function itemOf({ event, seen }: Omit<Entry, 'cursor'>): Omit<ChangeItem, 'cursor'> {
  const { id, recordId, row, at, triggeredBy, actor, erased } = event;
  return {
    id: `evt_${id}`,
    event: seen.type as ChangeItem['event'],
    entity: seen.entity,
    record_id: recordId,
    version: row?.version ?? null,
    at,
    triggered_by: triggeredBy,
    actor,
    data: seen.data,
    ...(erased === undefined ? {} : { erased }),
  };
}
