// The rows of a list as a sparse array of blocks of 100, the API's largest page. A block after a known one is read by its
// cursor: cheap and exact. A block that one jumps to is read by its page number; from there on positions are approximate
// until the list is read again. The chain of cursors is kept, rows of 30 blocks at most, two calls under way at most.

import type { Page, Row } from '../api/answers.ts';
import { isAborted } from '../api/errors.ts';
import { BLOCK, isSameList, type ListQuery, ListReader } from './list-reader.ts';

const MOST_BLOCKS = 30;
const MOST_CALLS = 2;

interface Block {
  rows: Row[];
  etags: (string | null)[];
  usedAt: number;
}

export class Rows {
  /** Null until counted. */
  total: number | null = null;
  /** Whether a number of rows before the end is only what has been seen so far. */
  isCounting = true;
  isApproximate = false;
  failure: unknown = null;
  /** Milliseconds of the first page. */
  firstMs: number | null = null;
  #seen = 0;
  #blocks = new Map<number, Block>();
  #cursors: (string | undefined)[] = [''];
  #calls = new Map<number, AbortController>();
  #counting = new AbortController();
  #wanted: number[] = [];
  #view: [first: number, last: number] = [0, 0];
  readonly #blockOf = new Map<string, number>();
  #clock = 0;
  #version = 0;
  readonly #reader: ListReader;
  /** The same list as it was read before: shown until this one's rows are there. */
  #previous: Rows | null = null;
  readonly #listeners = new Set<() => void>();

  constructor(
    readonly query: ListQuery,
    previous: Rows | null = null,
  ) {
    this.#reader = new ListReader(query);
    if (previous === null || previous.length === 0 || !isSameList(query, previous.query)) return;
    this.#previous = previous;
    this.total = previous.total;
    this.#seen = previous.#seen;
    this.#view = previous.#view;
    previous.#previous = null;
  }

  /** Whether the place in the list stays: it is only read again. */
  get isContinued(): boolean {
    return this.#previous !== null;
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };
  readonly version = (): number => this.#version;

  /** Rows that the scrollbar stands for: all when they are counted, else those seen and a block. */
  get length(): number {
    return this.total ?? this.#seen;
  }

  at(index: number): Row | undefined {
    if (index < 0) return undefined;
    if (this.#blocks.size === 0 && this.#previous !== null) return this.#previous.at(index);
    return this.#blocks.get(Math.floor(index / BLOCK))?.rows[index % BLOCK];
  }

  /** The version of a loaded row, for `If-Match`. */
  etagOf(id: string): string | null {
    if (this.#blocks.size === 0 && this.#previous !== null) return this.#previous.etagOf(id);
    const index = this.indexOf(id);
    return this.#blocks.get(Math.floor(index / BLOCK))?.etags[index % BLOCK] ?? null;
  }

  /** Whether only the beginning of a value is here. */
  isCut(id: string, key: string): boolean {
    return this.#reader.isCut(id, key) || (this.#previous?.isCut(id, key) ?? false);
  }

  /** Where a loaded row stands; -1 for one that is not loaded. */
  indexOf(id: string): number {
    const block = this.#blockOf.get(id);
    const at = block === undefined ? -1 : (this.#blocks.get(block)?.rows.findIndex((row) => row.id === id) ?? -1);
    return block === undefined || at < 0 ? -1 : block * BLOCK + at;
  }

  /** The ids of the rows that were asked for last: those in view. */
  inView(): string[] {
    const [first, last] = this.#view;
    const rows = Array.from({ length: last - first + 1 }, (_, at) => this.at(first + at));
    return rows.flatMap((row) => (row === undefined ? [] : [row.id]));
  }

  /** The loaded rows, in order. */
  loaded(): Row[] {
    return [...this.#blocks.entries()].sort(([a], [b]) => a - b).flatMap(([, { rows }]) => rows);
  }

  start(): void {
    void this.#count();
    const [first, last] = this.#view;
    this.need(first, this.isContinued ? last : BLOCK - 1, 1);
  }

  /** Loads all rows between two places, as far as they fit. */
  async load(first: number, last: number): Promise<void> {
    for (let block = Math.floor(first / BLOCK); block <= Math.floor(last / BLOCK); block += 1) {
      if (this.#isWanting(block)) await this.#load(block);
    }
  }

  /** Loads what is visible and one block ahead; aborts what has been scrolled past. */
  need(first: number, last: number, direction: 1 | -1): void {
    this.#view = [first, Math.max(first, last)];
    const from = Math.floor(first / BLOCK);
    const to = Math.floor(Math.max(first, last) / BLOCK);
    const visible = Array.from({ length: to - from + 1 }, (_, at) => from + at);
    const ahead = direction > 0 ? to + 1 : from - 1;
    for (const block of visible) {
      const found = this.#blocks.get(block);
      if (found !== undefined) found.usedAt = ++this.#clock;
    }
    this.#wanted = [...visible, ahead].filter((block) => this.#isWanting(block));
    for (const [block, call] of this.#calls) {
      if (block < from - 1 || block > to + 1) call.abort();
    }
    this.#next();
  }

  /** Replaces a row by what the service answered; it stays in its place. */
  put(row: Row, etag: string | null): void {
    const index = this.indexOf(row.id);
    const block = this.#blocks.get(Math.floor(index / BLOCK));
    if (block === undefined) return;
    block.rows[index % BLOCK] = this.#reader.shortened(row);
    block.etags[index % BLOCK] = etag;
    this.#changed();
  }

  /** The rows of the list among those with these ids, as they are now; and how many the list has. */
  among(ids: readonly string[], signal: AbortSignal): Promise<Page<Row>> {
    const { filters } = this.query;
    const these = `id in (${ids.join(', ')})`;
    return this.#reader.page(
      { filters: filters === '' ? these : `(${filters}) AND ${these}`, sort: undefined },
      signal,
    );
  }

  /** Counts again, beside `total`. */
  async recount(signal: AbortSignal): Promise<number | null> {
    return (await this.#reader.page({ limit: 1, count: undefined }, signal)).total;
  }

  stop(): void {
    this.#counting.abort();
    for (const call of this.#calls.values()) call.abort();
    this.#wanted = [];
  }

  /** Tries again what failed. */
  retry(): void {
    this.failure = null;
    if (this.total === null) void this.#count();
    this.need(0, BLOCK - 1, 1);
    this.#changed();
  }

  #isWanting(block: number): boolean {
    if (block < 0 || this.#blocks.has(block) || this.#calls.has(block)) return false;
    return block === 0 || this.total === null || block * BLOCK < this.total;
  }

  #next(): void {
    while (this.#calls.size < MOST_CALLS) {
      const at = this.#wanted.findIndex((block) => this.#isReady(block));
      if (at < 0) return;
      const [block] = this.#wanted.splice(at, 1);
      if (block !== undefined && this.#isWanting(block)) void this.#load(block);
    }
  }

  /** A block whose cursor an earlier block is about to bring waits for it. */
  #isReady(block: number): boolean {
    if (this.#cursors[block] !== undefined) return true;
    return !this.#calls.has(block - 1) && !this.#wanted.includes(block - 1);
  }

  async #load(block: number): Promise<void> {
    const call = new AbortController();
    this.#calls.set(block, call);
    const cursor = this.#cursors[block];
    const began = performance.now();
    try {
      const page = await this.#reader.block(block, cursor, call.signal);
      this.#keep(block, page, cursor !== undefined);
      this.firstMs ??= performance.now() - began;
      this.failure = null;
    } catch (cause) {
      if (!isAborted(cause)) this.failure = cause;
    } finally {
      this.#calls.delete(block);
      this.#changed();
      this.#next();
    }
  }

  #keep(block: number, page: Page<Row>, isExact: boolean): void {
    this.#blocks.set(block, { rows: page.items, etags: page.etags ?? [], usedAt: ++this.#clock });
    this.#previous = null;
    for (const { id } of page.items) this.#blockOf.set(id, block);
    if (isExact) {
      this.#cursors[block + 1] = page.nextCursor ?? undefined;
      if (page.nextCursor === null) this.#end(block * BLOCK + page.items.length);
    } else {
      this.isApproximate = true;
    }
    const more = page.items.length === BLOCK ? 1 : 0;
    this.#seen = Math.max(this.#seen, block * BLOCK + page.items.length + more);
    while (this.#blocks.size > MOST_BLOCKS) this.#dropOldest();
  }

  /** The list ends here, whatever was counted before. */
  #end(length: number): void {
    this.total = length;
    this.isCounting = false;
  }

  #dropOldest(): void {
    let oldest: number | undefined;
    for (const [block, { usedAt }] of this.#blocks) {
      if (oldest === undefined || usedAt < (this.#blocks.get(oldest)?.usedAt ?? 0)) oldest = block;
    }
    if (oldest === undefined) return;
    for (const { id } of this.#blocks.get(oldest)?.rows ?? []) this.#blockOf.delete(id);
    this.#blocks.delete(oldest);
  }

  async #count(): Promise<void> {
    try {
      const { total } = await this.#reader.page({ limit: 1, count: undefined }, this.#counting.signal);
      if (this.isCounting) this.total = total;
    } catch (cause) {
      if (!isAborted(cause)) this.failure ??= cause;
    } finally {
      this.isCounting = false;
      this.#changed();
    }
  }

  #changed(): void {
    this.#version += 1;
    for (const listener of this.#listeners) listener();
  }
}
