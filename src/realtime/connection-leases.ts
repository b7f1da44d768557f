// The places that connections take, limited across processes: leases in the broker, renewed while the
// connection lasts, so that those of a dead process come back by themselves. Times are milliseconds.
// Failures: 503 while the broker is away. Contract: interface#limits.
import type { App } from '../app.ts';
import { newId } from '../runtime/ids.ts';

const TTL_MS = 30_000;
const RENEW_MS = 10_000;

/** A place taken in each of some sets. */
export interface ConnectionLease {
  member: string;
  sets: readonly string[];
}

export class ConnectionLeases {
  readonly #app: App;
  readonly #members = new Map<string, Set<string>>();
  readonly #timer: ReturnType<typeof setInterval>;

  constructor(app: App) {
    this.#app = app;
    this.#timer = setInterval(() => void this.#renew(), RENEW_MS);
  }

  /** Takes a place in every set, or in none; resolves to null when one is full. To be given back by `release`. */
  async acquire(limits: Readonly<Record<string, number>>): Promise<ConnectionLease | null> {
    const member = newId();
    const taken: string[] = [];
    try {
      for (const [set, limit] of Object.entries(limits)) {
        if (!(await this.#app.broker.lease(set, member, limit, TTL_MS))) {
          await this.release({ member, sets: taken });
          return null;
        }
        taken.push(set);
        const members = this.#members.get(set) ?? new Set();
        this.#members.set(set, members.add(member));
      }
    } catch (cause) {
      await this.release({ member, sets: taken });
      throw cause;
    }
    return { member, sets: taken };
  }

  async release({ member, sets }: ConnectionLease): Promise<void> {
    await Promise.all(sets.map((set) => this.#release(set, member)));
  }

  /** How many places this process holds in the sets whose names begin so. */
  count(prefix: string): number {
    let count = 0;
    for (const [set, members] of this.#members) if (set.startsWith(prefix)) count += members.size;
    return count;
  }

  close(): void {
    clearInterval(this.#timer);
  }

  async #release(set: string, member: string): Promise<void> {
    const members = this.#members.get(set);
    members?.delete(member);
    if (members?.size === 0) this.#members.delete(set);
    try {
      await this.#app.broker.release(set, member);
    } catch (cause) {
      this.#app.log.warn('a place could not be given back; it runs out by itself', { cause });
    }
  }

  async #renew(): Promise<void> {
    try {
      const sets = [...this.#members];
      await Promise.all(sets.map(([set, members]) => this.#app.broker.renew(set, [...members], TTL_MS)));
    } catch (cause) {
      this.#app.log.warn('the places of connections could not be renewed', { cause });
    }
  }
}
