// The connections of a pool, and which of them suits a share. A Postgres backend caches the catalog of each tenant that it serves,
// about half a megabyte with the plans, and a tenant that is new to it costs several milliseconds of CPU. So each share has a home:
// the slot that its name hashes to, and the following slots for its concurrent calls. A connection that has been lent for long is
// passed over. A connection that knows few tenants, or knows this tenant, suits too: it costs little. A connection that has prepared
// the same statement suits better than the home: elsewhere the statement takes 3 to 8 ms of CPU, and ten times that on a busy machine.
// Connections that share one session suit everybody. Times are milliseconds.
import type { Work } from '../work.ts';
import type { Connection } from './connection.ts';

/** A home that has been lent for this long is passed over. With 10 ms, creates of 1,000 tenants spread over all connections. */
const LENT_LONG_MS = 25;
/** On a busy machine calls take long. A home is then passed over only after the time of this many usual calls. */
const LENT_LONG_CALLS = 4;
/** The usual time of a call is an estimate of the median: each call moves it by this factor, so a few long calls hardly move it. */
const USUAL_FACTOR = 1.05;
const USUAL = { leastMs: 1, mostMs: 25 } as const;
/** How long a call waits for a connection that suits it while others are idle, as a multiple of the time above. */
const PATIENCE = 2;
/** A backend that has served fewer tenants suits every tenant: with few tenants, none waits for its home while others are idle. */
const FEW_TENANTS = 32;
/** The home of work for no tenant: any connection suits it. */
export const NO_HOME = -1;

/** What a call prefers: the slot that its share's name hashes to, and connections that know its statement or its tenant. */
export interface Wish {
  home: number;
  tenantId: string | null;
  /** The call's only statement; undefined for several. */
  text?: string | undefined;
  /** The only connection that can be used, because it has the call's cursor. */
  only?: Connection;
}

export class Connections {
  /** By slot. The slots from `homes` on are the home of no tenant; operators use them. */
  readonly #slots: (Connection | undefined)[];
  readonly #idle: Connection[] = [];
  #size = 0;
  #usualMs: number = USUAL.leastMs;

  /** The first `homes` slots are homes; without homes, all connections suit everybody. */
  constructor(
    private readonly homes: number,
    slots: number,
  ) {
    this.#slots = Array(slots).fill(undefined);
  }

  /** Connections that are open or being opened. */
  get size(): number {
    return this.#size;
  }

  get idle(): number {
    return this.#idle.length;
  }

  get isFull(): boolean {
    return this.#size >= this.#slots.length;
  }

  [Symbol.iterator](): IterableIterator<Connection> {
    return this.#slots.filter((connection) => connection !== undefined).values();
  }

  wishOf({ share, tenantId, isOperator }: Work, text?: string): Wish {
    const hasHome = tenantId !== null && !isOperator && this.homes > 0;
    return { home: hasHome ? (hashOf(share) >>> 0) % this.homes : NO_HOME, tenantId, text };
  }

  /** Whether the home has no connection. */
  lacks(home: number): boolean {
    return home !== NO_HOME && this.#slots[home] === undefined;
  }

  /** Adds a connection, lent, in this slot or else in the first free one. */
  add(connection: Connection, now: number, home = NO_HOME): void {
    const slot = this.lacks(home) ? home : this.#slots.indexOf(undefined);
    connection.lentAt = now;
    this.#slots[slot] = connection;
    this.#size++;
  }

  remove(connection: Connection): void {
    const slot = this.#slots.indexOf(connection);
    if (slot < 0) return;
    this.#slots[slot] = undefined;
    this.#size--;
    const at = this.#idle.indexOf(connection);
    if (at >= 0) this.#idle.splice(at, 1);
  }

  /** Takes a connection back; `now` tells how long it was lent. */
  release(connection: Connection, now: number): void {
    const isLonger = now - connection.lentAt > this.#usualMs;
    const usualMs = isLonger ? this.#usualMs * USUAL_FACTOR : this.#usualMs / USUAL_FACTOR;
    this.#usualMs = Math.min(USUAL.mostMs, Math.max(USUAL.leastMs, usualMs));
    connection.lentAt = 0;
    this.#idle.push(connection);
  }

  /** The time after which a connection counts as lent for long. */
  get #lentLongMs(): number {
    return Math.max(LENT_LONG_MS, LENT_LONG_CALLS * this.#usualMs);
  }

  /** How long a call waits for a connection that suits it while others are idle. */
  get patienceMs(): number {
    return PATIENCE * this.#lentLongMs;
  }

  /** An idle connection that suits a tenant with this home, which already holds `held` connections. */
  suited({ home, tenantId, text, only }: Wish, held: number, now: number): Connection | undefined {
    if (only !== undefined) return this.#idle.find((connection) => connection === only);
    if (home === NO_HOME) return this.#idle.at(-1);
    let knowsTenant: Connection | undefined;
    let suits: Connection | undefined;
    let busy = 0;
    const lentLongMs = this.#lentLongMs;
    for (let i = 0; i < this.homes; i++) {
      const connection = this.#slots[(home + i) % this.homes];
      if (connection === undefined) continue;
      const { lentAt, serverCache } = connection;
      if (lentAt !== 0) busy += now - lentAt < lentLongMs ? 1 : 0;
      else if (text !== undefined && serverCache.hasStatement(text)) return connection;
      else if (serverCache.hasTenant(tenantId)) knowsTenant ??= connection;
      else if (busy <= held || serverCache.tenants < FEW_TENANTS) suits ??= connection;
    }
    return knowsTenant ?? suits;
  }

  /** Takes the idle connection that suits best; there must be an idle one. */
  take(wish: Wish, held: number, now: number): Connection {
    const connection = this.suited(wish, held, now) ?? this.#nextIdle(wish.home);
    this.#idle.splice(this.#idle.lastIndexOf(connection), 1);
    connection.lentAt = now;
    return connection;
  }

  /** The next idle connection after the home, so that a share keeps to few connections. */
  #nextIdle(home: number): Connection {
    for (let i = 0; i < this.homes; i++) {
      const connection = this.#slots[(home + i) % this.homes];
      if (connection?.lentAt === 0) return connection;
    }
    return this.#idle[0] as Connection;
  }
}

function hashOf(text: string): number {
  let hash = 0;
  for (let i = 0; i < text.length; i++) hash = (Math.imul(hash, 31) + text.charCodeAt(i)) | 0;
  return Math.imul(hash ^ (hash >>> 15), 0x9e3779b1);
}
