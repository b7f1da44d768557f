// The two limits on open connections. Authenticated ones hold leases in the broker, shared by all processes; a lease is
// renewed while its connection lasts, and expires if its process dies. WebSockets that have not authenticated yet are
// counted in this process, in total and by client address. Times are milliseconds.
// Failures: 503 while the broker is unavailable. Contract: interface#limits, decisions#websocket.
import type { App } from '../app.ts';
import type { QuotaUse } from '../errors.ts';
import { newId } from '../runtime/ids.ts';
import type { Tenant } from '../tenants/tenants.ts';
import { noticeUse } from '../usage/near-quota.ts';

const TTL_MS = 30_000;
const RENEW_MS = 10_000;
const PREFIXES = { streams: 'sse', sockets: 'ws' } as const;

/** The leases of one connection: one in each of the sets, all under the same member id. */
export interface ConnectionLease {
  member: string;
  sets: readonly string[];
}

export class ConnectionLeases {
  readonly #members = new Map<string, Set<string>>();
  readonly #timer: ReturnType<typeof setInterval>;

  constructor(private readonly app: App) {
    this.#timer = setInterval(() => void this.#renew(), RENEW_MS);
  }

  /** Acquires a lease in every set, or in none; null when one is full. */
  async acquire(limits: Readonly<Record<string, number>>): Promise<ConnectionLease | null> {
    const member = newId();
    const acquired: string[] = [];
    try {
      for (const [set, limit] of Object.entries(limits)) {
        if (!(await this.app.broker.lease(set, member, limit, TTL_MS))) {
          this.app.refusals.count('CONNECTION_LIMIT');
          await this.release({ member, sets: acquired });
          return null;
        }
        acquired.push(set);
        const members = this.#members.get(set) ?? new Set();
        this.#members.set(set, members.add(member));
      }
    } catch (cause) {
      await this.release({ member, sets: acquired });
      throw cause;
    }
    return { member, sets: acquired };
  }

  /**
   * Acquires a lease for a connection of a tenant, within its quota and the limit of every tenant; null when it has as
   * many. `use` is that of the quota.
   */
  async acquireInTenant(
    { id, quotas }: Tenant,
    quota: 'streams' | 'sockets',
    further: Readonly<Record<string, number>> = {},
  ): Promise<{ lease: ConnectionLease | null; use: QuotaUse | undefined }> {
    const set = `${PREFIXES[quota]}:${id}`;
    const limit = quotas[quota];
    const { sse, ws } = this.app.config;
    const max = (quota === 'streams' ? sse : ws).maxPerTenant;
    const lease = await this.acquire({ [set]: Math.min(max, limit ?? max), ...further });
    if (limit === undefined) return { lease, use: undefined };
    const used = await this.app.broker.leaseCount(set);
    noticeUse(this.app, id, quota, limit, used);
    return { lease, use: { quota, limit, used } };
  }

  async release({ member, sets }: ConnectionLease): Promise<void> {
    await Promise.all(sets.map((set) => this.#release(set, member)));
  }

  /** The leases of this process in the sets with this prefix. */
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
      await this.app.broker.release(set, member);
    } catch (cause) {
      this.app.log.warn('cannot release a connection lease; it will expire', { cause });
    }
  }

  async #renew(): Promise<void> {
    try {
      const sets = [...this.#members];
      await Promise.all(sets.map(([set, members]) => this.app.broker.renew(set, [...members], TTL_MS)));
    } catch (cause) {
      this.app.log.warn('cannot renew the connection leases', { cause });
    }
  }
}

export class UnauthenticatedLimit {
  /** By address; never 0. */
  readonly #counts = new Map<string, number>();
  #size = 0;

  constructor(
    private readonly limits: { perAddress: number; total: number },
    private readonly onRefused: () => void = () => {},
  ) {}

  get size(): number {
    return this.#size;
  }

  /** False at the limit. Each success must be released exactly once. */
  acquire(address: string): boolean {
    const count = this.#counts.get(address) ?? 0;
    if (this.#size >= this.limits.total || count >= this.limits.perAddress) {
      this.onRefused();
      return false;
    }
    this.#counts.set(address, count + 1);
    this.#size++;
    return true;
  }

  release(address: string): void {
    const count = this.#counts.get(address) ?? 0;
    if (count > 1) this.#counts.set(address, count - 1);
    else this.#counts.delete(address);
    this.#size--;
  }
}
