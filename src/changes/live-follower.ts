// Follows the feed for one stream or subscription: first what has been committed since its cursor, then what is committed,
// without a gap or a repetition between the two. There is no hand-over: everything is read from the feed, from one cursor on.
// A live event only wakes the reader.
// Proof that none is missed: the connection has joined the live events before the first read. A page ends with a head; what
// that head does not see is committed later, so it is relayed and wakes, as does what is dropped because too much waits, and a wake
// during a read causes another one. Where live events may have been lost, the connection is closed: its client has its cursor.
// Proof that none is repeated: only this loop reads, one page at a time, each from where the last one ended. Contract: feed#resume.
import { setTimeout as delay } from 'node:timers/promises';
import type { TenantCaller } from '../access/caller.ts';
import type { App } from '../app.ts';
import { type ChangesCursor, rightsKeyOf, sealCursor } from '../http/changes-cursor.ts';
import { LIMITS } from '../limits.ts';
import { pauseAfter } from '../runtime/unavailability.ts';
import { forTenant } from '../runtime/work.ts';
import { type Entry, type OtherEvents, PageReader } from './page.ts';
import { type PageReceiver, type PageTurn, pageTurnsOf } from './page-turns.ts';
import { readSelection, type Wanted } from './selection.ts';

/** What a stream does for its follower. */
export interface FollowedStream extends PageReceiver {
  /** With the rights as last loaded. */
  caller(): TenantCaller;
  /** With the rights of now, which may have to be loaded; null once the stream has ended. */
  callerNow(): Promise<TenantCaller | null>;
  /** Events that are not of records, as the stream shows them. */
  others: OtherEvents;
  /** Resolves when the client has taken almost all of the last page, or has gone. */
  room(): Promise<void>;
  send(entry: Entry, cursor: string | null): void;
  /** What is followed no longer exists, or the database is unavailable for longer. */
  failed(cause: unknown): void;
}

export interface Following {
  cursor: ChangesCursor;
  wanted: Wanted;
  /** Whether each event has a cursor of its own. */
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
  }

  /** Something was committed, or this is the beginning. */
  wake(): void {
    this.#isWoken = true;
    if (this.#isRunning || this.#hasStopped) return;
    this.#isRunning = true;
    void forTenant(this.#tenantId, () => this.#run());
  }

  /** The rights have been loaded again. */
  accessLoaded(): void {
    if (rightsKeyOf(this.stream.caller()) !== this.#cursor.rightsKey) this.wake();
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
        // Without a turn: others read meanwhile.
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

  /** Resolves to whether more follows. */
  async #readPage(turn: PageTurn): Promise<boolean> {
    if (this.#hasStopped) return false;
    const { wanted, hasCursors } = this.following;
    const caller = await this.stream.callerNow();
    if (caller === null) return false;
    const page = await this.#pages.page(caller, await readSelection(this.app, caller, wanted), this.#cursor);
    if (this.#hasStopped) return false;
    const { rightsKey } = page.cursor;
    for (const entry of page.entries) {
      const { position } = entry;
      this.stream.send(entry, hasCursors ? sealCursor(this.app, this.#tenantId, { position, rightsKey }) : null);
    }
    this.#cursor = page.cursor;
    turn.read(page.scanned, page.received);
    return page.hasMore;
  }
}
