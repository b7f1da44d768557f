// What changes of others do to the list that is shown. Changed rows are read again, a few times a second at most, and
// take their new values where they stand; one that left the list or the record's place in it stays and is marked; new
// ones are only counted. Nothing moves until the person reads the list again.

import type { Row } from '../api/answers.ts';
import type { Change } from '../api/changes.ts';
import { isAborted } from '../api/errors.ts';
import { sortOf } from './columns.ts';
import type { Rows } from './rows.ts';
import { isSame } from './write-cells.ts';

export interface Mark {
  /** Members that changed last. */
  keys: ReadonlySet<string>;
  /** What became of the row: still in its place, gone from the list or its place, deleted. */
  kind: 'changed' | 'stale' | 'gone';
  /** Differs from change to change. */
  turn: number;
}

const PAUSE_MS = 250;
/** From this many waiting changes on, rows are read once a second. */
const BUSY = 20;
const BUSY_PAUSE_MS = 1_000;
/** Bytes of ids and the filter that fit into a condition of 2,000 characters. */
const PER_CALL = 40;
const ID_CHARACTERS = 38;
const CONDITION_CHARACTERS = 1_900;
const MOST_CALLS = 5;
const MOST_NEW = 1_000;

export class LiveRows {
  #marks = new Map<string, Mark>();
  #waiting = new Set<string>();
  #created = new Set<string>();
  #new = new Set<string>();
  /** New rows of a gap, of which only the number is known. */
  #missed = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #call = new AbortController();
  #version = 0;
  readonly #listeners = new Set<() => void>();

  constructor(readonly rows: Rows) {}

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };
  readonly version = (): number => this.#version;

  of(id: string): Mark | undefined {
    return this.#marks.get(id);
  }

  /** Rows of the list that are not shown because they came later. */
  get newCount(): number {
    return [...this.#new].filter((id) => this.rows.indexOf(id) < 0).length + this.#missed;
  }

  /** Rows that stand where they no longer belong. */
  get staleCount(): number {
    return [...this.#marks.values()].filter(({ kind }) => kind !== 'changed').length;
  }

  readonly take = ({ type, id }: Change): void => {
    const isShown = this.rows.indexOf(id) >= 0;
    if (type === 'deleted') {
      this.#new.delete(id);
      this.#created.delete(id);
      if (isShown) this.#mark(id, 'gone', []);
      this.#changed();
      return;
    }
    if (isShown) this.#waiting.add(id);
    else if (type === 'created' && this.#new.size + this.#created.size < MOST_NEW) this.#created.add(id);
    this.#plan();
  };

  /** When the stream opens: reads what is in view, because it may have changed since; after a gap counts what came, too. */
  readonly catchUp = (isAgain: boolean): void => {
    for (const id of this.rows.inView()) this.#waiting.add(id);
    if (this.#waiting.size > 0) this.#plan();
    if (isAgain) void this.#recount();
  };

  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#call.abort();
  }

  #plan(): void {
    if (this.#call.signal.aborted) this.#call = new AbortController();
    const wait = this.#waiting.size + this.#created.size > BUSY ? BUSY_PAUSE_MS : PAUSE_MS;
    this.#timer ??= setTimeout(() => void this.#read(), wait);
  }

  async #read(): Promise<void> {
    const { filters } = this.rows.query;
    const room = Math.floor((CONDITION_CHARACTERS - filters.length) / ID_CHARACTERS);
    const size = Math.max(1, Math.min(PER_CALL, room));
    const inView = new Set(this.rows.inView());
    // What is in view comes first; what does not fit waits for the next time.
    const all = [...this.#waiting, ...this.#created].sort((a, b) => Number(inView.has(b)) - Number(inView.has(a)));
    const ids = all.slice(0, size * MOST_CALLS);
    try {
      for (let at = 0; at < ids.length; at += size) await this.#readSome(ids.slice(at, at + size));
    } catch (cause) {
      if (isAborted(cause)) return;
      // The next change, or the connection's return, reads again.
      for (const id of ids) this.#forget(id);
    }
    this.#timer = undefined;
    if (this.#waiting.size + this.#created.size > 0) this.#plan();
    this.#changed();
  }

  async #readSome(ids: readonly string[]): Promise<void> {
    for (const id of ids) {
      if (this.#created.has(id)) this.#new.add(id);
      this.#forget(id);
    }
    const { items, etags } = await this.rows.among(ids, this.#call.signal);
    const found = new Map(items.map((row, at) => [row.id, { row, etag: etags?.[at] ?? null }]));
    for (const id of ids) {
      const now = found.get(id);
      const index = this.rows.indexOf(id);
      const shown = index < 0 ? undefined : this.rows.at(index);
      if (now === undefined) {
        this.#new.delete(id);
        if (shown !== undefined && this.of(id)?.kind !== 'gone') this.#mark(id, 'stale', []);
      } else if (shown !== undefined) this.#put(shown, now.row, now.etag);
    }
  }

  #put(shown: Row, now: Row, etag: string | null): void {
    const keys = Object.keys(now).filter((key) => !isSame(now[key], shown[key]));
    this.rows.put(now, etag);
    if (keys.length === 0) return;
    const { sort } = this.rows.query;
    const isMoved = keys.some((key) => sortOf(sort, key).direction !== null);
    const wasMoved = this.of(now.id)?.kind === 'stale' && sort !== '';
    this.#mark(now.id, isMoved || wasMoved ? 'stale' : 'changed', keys);
  }

  async #recount(): Promise<void> {
    const before = this.rows.total;
    const now = await this.rows.recount(this.#call.signal).catch(() => null);
    if (before === null || now === null) return;
    const gone = [...this.#marks.values()].filter(({ kind }) => kind === 'gone').length;
    this.#missed = Math.max(0, now - before + gone - this.#new.size);
    this.#changed();
  }

  #forget(id: string): void {
    this.#waiting.delete(id);
    this.#created.delete(id);
  }

  #mark(id: string, kind: Mark['kind'], keys: readonly string[]): void {
    this.#marks.set(id, { kind, keys: new Set(keys), turn: (this.of(id)?.turn ?? 0) + 1 });
  }

  #changed(): void {
    this.#version += 1;
    for (const listener of this.#listeners) listener();
  }
}
