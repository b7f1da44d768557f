// Hits of rate windows on their way to Redis. Those that come while a command for the same windows is under way go as
// one command after it. A process in which they come thick and fast borrows some more at once, as long as there are
// plenty, and gives back soon what it did not need; nobody is refused while anything is on loan. So all processes
// together let through exactly the quota (less what a process that is killed had borrowed), at a small share of a
// command a request. A first window that is used up is answered from memory. Times are milliseconds.
import { setImmediate } from 'node:timers';
import { setTimeout as delay } from 'node:timers/promises';
import type { RateWindow } from './contract.ts';

/** One window as it stands after a hit. */
export interface Hit {
  count: number;
  resetMs: number;
}

/** What Redis says to some hits. */
export interface Taken {
  /** Each window as it was before them, as far as they reached. */
  windows: { before: number; resetMs: number }[];
  /** Above 0: hits beyond the quota were not counted; ask again after so long, when all loans are back. */
  waitMs: number;
  /** Further hits that this process has counted in advance, and what tells these windows from those after them. */
  lent: number;
  epochs: number[];
}

export interface HitStore {
  /** Counts so many hits, and lends up to `wanted` more if there are plenty. */
  take(windows: readonly RateWindow[], times: number, wanted: number): Promise<Taken>;
  /** Gives back borrowed hits, unless their windows are over. */
  giveBack(windows: readonly RateWindow[], times: number, epochs: readonly number[]): Promise<void>;
}

interface Waiting {
  resolve(hits: Hit[]): void;
  reject(error: unknown): void;
}

/** Its windows with the time at which each is over. */
interface Loan extends Taken {
  left: number;
  endsAt: number;
}

/** What this process knows of the same windows. */
interface Line {
  windows: readonly RateWindow[];
  waiting: Waiting[];
  isBusy: boolean;
  takenAt: number;
  loan: Loan | undefined;
  /** When the first window, used up, ends. */
  fullUntil: number;
}

/** A borrowed hit is used within this time or given back. The store keeps loans in mind for longer. */
const LOAN_MS = 50;
export const LOAN_KNOWN_MS = 150;
const WANTED = 64;
const LINES_MAX = 10_000;

export class Hits {
  readonly #lines = new Map<string, Line>();

  constructor(
    private readonly store: HitStore,
    private readonly onLost: (error: unknown) => void,
  ) {}

  /** The broker contract's `hitAll`. */
  add(windows: readonly RateWindow[]): Promise<Hit[]> {
    const line = this.#line(windows);
    const now = performance.now();
    if (line.fullUntil > now)
      return Promise.resolve([{ count: quotaOf(windows, 0) + 1, resetMs: line.fullUntil - now }]);
    const lent = line.isBusy ? undefined : this.#fromLoan(line, now);
    if (lent !== undefined) return Promise.resolve(lent);
    return new Promise((resolve, reject) => {
      line.waiting.push({ resolve, reject });
      if (line.isBusy) return;
      line.isBusy = true;
      // The other requests that have arrived by now come in this turn of the event loop too.
      setImmediate(() => void this.#empty(line));
    });
  }

  #line(windows: readonly RateWindow[]): Line {
    const name = windows.map(({ key, windowMs, quota }) => `${key} ${windowMs} ${quota}`).join('\n');
    const known = this.#lines.get(name);
    if (known !== undefined) return known;
    if (this.#lines.size >= LINES_MAX) this.#forgetIdle();
    const made = {
      windows,
      waiting: [],
      isBusy: false,
      takenAt: Number.NEGATIVE_INFINITY,
      loan: undefined,
      fullUntil: 0,
    };
    this.#lines.set(name, made);
    return made;
  }

  #forgetIdle(): void {
    for (const [name, { isBusy, loan }] of this.#lines) if (!isBusy && loan === undefined) this.#lines.delete(name);
  }

  async #empty(line: Line): Promise<void> {
    while (line.waiting.length > 0) {
      const hits = line.waiting.filter(({ resolve }) => {
        const lent = this.#fromLoan(line, performance.now());
        if (lent !== undefined) resolve(lent);
        return lent === undefined;
      });
      line.waiting = [];
      if (hits.length === 0) break;
      try {
        await this.#take(line, hits);
      } catch (error) {
        for (const { reject } of hits) reject(error);
      }
    }
    line.isBusy = false;
  }

  async #take(line: Line, hits: Waiting[]): Promise<void> {
    const { windows } = line;
    const sentAt = performance.now();
    const wanted = sentAt - line.takenAt < LOAN_MS ? WANTED : 0;
    line.takenAt = sentAt;
    const taken = await this.store.take(windows, hits.length, wanted);
    const each = shares(windows, taken, hits.length);
    for (const [i, share] of each.entries()) hits[i]?.resolve(share);
    if (taken.lent > 0) this.#borrow(line, taken, hits.length, sentAt);
    const [first] = taken.windows;
    if (taken.waitMs > 0) {
      line.waiting.unshift(...hits.slice(each.length));
      await delay(taken.waitMs);
    } else if (first !== undefined && first.before + hits.length > quotaOf(windows, 0)) {
      // Reckoned from the sending, so that nothing is refused for longer than Redis would.
      line.fullUntil = sentAt + first.resetMs;
    }
  }

  /** A loan is over with its windows, at the latest. */
  #borrow(line: Line, taken: Taken, used: number, sentAt: number): void {
    const windows = taken.windows.map(({ before, resetMs }) => ({ before: before + used, resetMs: sentAt + resetMs }));
    const endsAt = Math.min(sentAt + LOAN_MS, ...windows.map(({ resetMs }) => resetMs));
    const loan: Loan = { ...taken, windows, left: taken.lent, endsAt };
    line.loan = loan;
    setTimeout(() => line.loan === loan && this.#settle(line), LOAN_MS);
  }

  /** One hit from the loan, if there is one; a loan that is used up is over. */
  #fromLoan(line: Line, now: number): Hit[] | undefined {
    const { loan } = line;
    if (loan === undefined) return undefined;
    if (loan.endsAt <= now) {
      this.#settle(line);
      return undefined;
    }
    const nth = loan.lent - loan.left + 1;
    loan.left -= 1;
    if (loan.left === 0) line.loan = undefined;
    return loan.windows.map(({ before, resetMs }) => ({ count: before + nth, resetMs: resetMs - now }));
  }

  /** Gives back what is left of a loan. */
  #settle(line: Line): void {
    const { loan, windows } = line;
    line.loan = undefined;
    if (loan !== undefined) this.store.giveBack(windows, loan.left, loan.epochs).catch(this.onLost);
  }
}

function quotaOf(windows: readonly RateWindow[], i: number): number {
  return windows[i]?.quota ?? 0;
}

/** What each hit in turn is told: one past a quota is not in the windows after it. Those that must wait are left out. */
function shares(windows: readonly RateWindow[], { windows: found, waitMs }: Taken, times: number): Hit[][] {
  const fitting = found.reduce((fit, { before }, i) => Math.min(fit, Math.max(0, quotaOf(windows, i) - before)), times);
  const each: Hit[][] = Array.from({ length: waitMs > 0 ? fitting : times }, () => []);
  let counted = each.length;
  for (const [i, { before, resetMs }] of found.entries()) {
    const quota = quotaOf(windows, i);
    for (let nth = 1; nth <= counted; nth++) each[nth - 1]?.push({ count: Math.min(before + nth, quota + 1), resetMs });
    counted = Math.min(counted, Math.max(0, quota - before));
  }
  return each;
}
