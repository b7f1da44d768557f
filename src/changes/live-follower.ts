// Follows the feed for one stream or subscription: first the changes since its cursor, then new ones, without a gap or a
// repetition in between. There is no hand-over: everything is read from the feed, from one cursor on. A live event only wakes
// the reader. Proof that no change is missed: the connection receives live events before its first read. A page ends with a
// head. A change that the head does not see is committed later, so its live event wakes the reader, even if it is dropped
// because too many wait. A wake during a read causes another read. Where live events may have been lost, the connection is
// closed: its client has its cursor. Proof that no change is repeated: only this loop reads, one page at a time, each from the
// end of the last one. Contract: feed#resume.
import { setTimeout as delay } from 'node:timers/promises';
import type { TenantCaller } from '../access/caller.ts';
import type { App } from '../app.ts';
import { catalogOf } from '../entities/catalog.ts';
import { type ChangesCursor, rightsKeyOf, sealCursor } from '../http/changes-cursor.ts';
import { LIMITS } from '../limits.ts';
import { pauseAfter } from '../runtime/unavailability.ts';
import { forTenant } from '../runtime/work.ts';
import { type Entry, type OtherEvents, PageReader } from './page.ts';
import { type PageReceiver, type PageTurn, pageTurnsOf } from './page-turns.ts';
import { readSelection, type Wanted } from './selection.ts';

/** The stream that a follower serves. */
export interface FollowedStream extends PageReceiver {
  /** The caller with the rights as last loaded. */
  caller(): TenantCaller;
  /** The caller with its current rights, which may have to be loaded; null once the stream has ended. */
  callerNow(): Promise<TenantCaller | null>;
  /** Events that are not of records, as the stream shows them. */
  others: OtherEvents;
  /** Resolves when the client has taken almost all of the last page, or has disconnected. */
  room(): Promise<void>;
  send(entry: Entry, cursor: string | null): void;
  /** Called when the view or entity that is followed no longer exists, or when the database stays unavailable. */
  failed(cause: unknown): void;
}

export interface Following {
  cursor: ChangesCursor;
  wanted: Wanted;
  /** Whether each event has its own cursor. */
  hasCursors: boolean;
  /** Events of a page. */
  limit: number;
}

export class LiveFollower {
  readonly #tenantId: string;
  readonly #pages: PageReader;
  #cursor: ChangesCursor;
  #isWoken = false;
  #isRunning = false;
  #hasStopped = false;

  constructor(
    private readonly app: App,
    private readonly stream: FollowedStream,
    private readonly following: Following,
  ) {
    this.#tenantId = stream.caller().tenant.id;
    this.#cursor = following.cursor;
    const size = { entries: following.limit, bytes: LIMITS.changes.streamBytes, scanMs: LIMITS.replay.scanMs };
    this.#pages = new PageReader(app, size, stream.others);
    // A read that fails as this one does says so.
    setTimeout(() => void this.#checkDefinitions().catch(() => this.wake()), LIMITS.cacheStaleMs).unref?.();
  }

  /** Reads on: something was committed, or the stream begins. */
  wake(): void {
    this.#isWoken = true;
    if (this.#isRunning || this.#hasStopped) return;
    this.#isRunning = true;
    void forTenant(this.#tenantId, () => this.#run());
  }

  /** Called when the rights have been loaded again. */
  accessLoaded(): void {
    if (rightsKeyOf(this.stream.caller()) !== this.#cursor.rightsKey) this.wake();
  }

  /**
   * Reads on if the definitions have changed since the follower was shown its records. The cursor may be from a response that was made
   * while the process still used former definitions, and no event tells when the current ones have arrived.
   */
  async #checkDefinitions(): Promise<void> {
    if (this.#hasStopped) return;
    const { tenant } = this.stream.caller();
    const { definitionChanges } = await forTenant(tenant.id, async () => catalogOf(this.app, tenant));
    if (definitionChanges > (this.#cursor.definitionChanges ?? definitionChanges)) this.wake();
  }

  stop(): void {
    this.#hasStopped = true;
  }

  async #run(): Promise<void> {
    let turn: PageTurn | undefined;
    let failures = 0;
    try {
      for (let hasMore = false; !this.#hasStopped && (hasMore || this.#isWoken); ) {
        turn = await pageTurnsOf(this.app).next(this.stream, hasMore);
        this.#isWoken = false;
        let pauseMs: number | undefined;
        try {
          hasMore = await this.#readPage(turn);
          failures = 0;
          await this.stream.room();
        } catch (cause) {
          pauseMs = pauseAfter(cause, failures++);
          if (pauseMs === undefined) throw cause;
          // Nothing of the page has been sent.
          hasMore = true;
        }
        turn.end();
        // Pauses without holding a turn: others read meanwhile.
        if (pauseMs !== undefined) await delay(pauseMs, undefined, { ref: false });
      }
    } catch (cause) {
      this.#hasStopped = true;
      this.stream.failed(cause);
    } finally {
      turn?.end();
      this.#isRunning = false;
    }
  }

  /** Reads one page. Resolves to whether more follows. */
  async #readPage(turn: PageTurn): Promise<boolean> {
    if (this.#hasStopped) return false;
    const { wanted, hasCursors } = this.following;
    const caller = await this.stream.callerNow();
    if (caller === null) return false;
    const page = await this.#pages.page(caller, await readSelection(this.app, caller, wanted), this.#cursor);
    if (this.#hasStopped) return false;
    for (const entry of page.entries) {
      this.stream.send(entry, hasCursors ? sealCursor(this.app, this.#tenantId, entry.cursor) : null);
    }
    this.#cursor = page.cursor;
    turn.read(page.scanned, page.received);
    return page.hasMore;
  }
}
