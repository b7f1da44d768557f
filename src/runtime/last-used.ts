// Notes when credentials were last used. Each use is noted in memory and written in the background, at most every 55 seconds for each
// credential, so a stored time is at most a minute old while its credential is in use. The first use is written within seconds. A failed
// write is repeated; a killed process loses what it had not written. Times are milliseconds.
// Contract: neighbours#who-does-what.
import type { Log } from './log.ts';
import { identifier, inputRows, type Queries, sql } from './sql.ts';
import { detached } from './work.ts';

/** Tables of the platform schema with a column `last_used_at`. */
export type UsedTable = 'owner_keys' | 'platform_keys' | 'public_keys' | 'bots' | 'user_sessions';

interface Use {
  table: UsedTable;
  usedAt: number;
  /** The time that is stored; 0 when it is unknown. */
  writtenAt: number;
}

const ROUND_MS = 2_000;
const SPACING_MS = 55_000;
const BATCH = 500;

export class LastUsed {
  /** By the credential's id. */
  readonly #uses = new Map<string, Use>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #writing: Promise<void> = Promise.resolve();
  #isClosed = false;

  constructor(
    private readonly queries: Queries,
    private readonly log: Log,
  ) {}

  /** Costs two map look-ups at most. */
  note(table: UsedTable, id: string): void {
    const use = this.#uses.get(id);
    if (use === undefined) this.#uses.set(id, { table, usedAt: Date.now(), writtenAt: 0 });
    else use.usedAt = Date.now();
    if (this.#timer === undefined && !this.#isClosed) this.#startTimer();
  }

  /** Writes all that is not written yet. Never rejects. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    await this.#writing;
    await this.#write(Number.POSITIVE_INFINITY);
  }

  #startTimer(): void {
    this.#timer = setTimeout(() => {
      this.#writing = detached(() => this.#write(Date.now())).finally(() => {
        this.#timer = undefined;
        if (this.#uses.size > 0 && !this.#isClosed) this.#startTimer();
      });
    }, ROUND_MS);
    this.#timer.unref?.();
  }

  /** Writes the uses that are due, and forgets credentials that are no longer used. */
  async #write(now: number): Promise<void> {
    const due = new Map<UsedTable, [id: string, use: Use][]>();
    for (const [id, use] of this.#uses) {
      if (use.writtenAt > now - SPACING_MS) continue;
      const uses = due.get(use.table) ?? [];
      if (use.usedAt <= use.writtenAt) this.#uses.delete(id);
      else uses.push([id, use]);
      due.set(use.table, uses);
    }
    for (const [table, uses] of due) {
      for (let at = 0; at < uses.length; at += BATCH) await this.#writeBatch(table, uses.slice(at, at + BATCH));
    }
  }

  /** Locks the rows in the order of their ids, because other processes write the same ones. */
  async #writeBatch(table: UsedTable, uses: readonly [id: string, use: Use][]): Promise<void> {
    const written = uses.map(([id, use]) => ({ id, use, at: use.usedAt }));
    const input = inputRows(
      ['uuid', 'timestamptz'],
      written.map(({ id, at }) => [id, new Date(at).toISOString()]),
    );
    const name = identifier('platform', table);
    try {
      await this.queries.rows(sql`
        with input (id, at) as (${input}), locked as (
          select k.id, i.at from ${name} as k join input as i on i.id = k.id order by k.id for no key update of k
        )
        update ${name} as k set last_used_at = greatest(k.last_used_at, l.at)
        from locked as l
        where k.id = l.id`);
      for (const { use, at } of written) use.writtenAt = at;
    } catch (error) {
      this.log.debug('the last uses of credentials are not stored yet', { table, count: uses.length, error });
    }
  }
}
