// The attempts in flight of this process, and the bytes of their bodies, by tenant. A tenant may have as many as are still free, within its
// own limit: the more tenants wait for slow receivers, the fewer each tenant has, and some places always stay free for a tenant that has
// none. Contract: neighbours#fair-shares, decisions#deliveries.
import { LIMITS } from '../../limits.ts';

interface Use {
  attempts: number;
  bytes: number;
}

const { perProcess, perTenant, bytesPerProcess } = LIMITS.webhook;

export class InFlight {
  readonly #byTenant = new Map<string, Use>();
  #total: Use = { attempts: 0, bytes: 0 };

  /** A copy, to plan a claim on. */
  plan(): InFlight {
    const plan = new InFlight();
    plan.#total = { ...this.#total };
    for (const [tenantId, use] of this.#byTenant) plan.#byTenant.set(tenantId, { ...use });
    return plan;
  }

  /** Whether the tenant may have another attempt in flight, with a body of this many bytes. */
  admits(tenantId: string, bytes: number): boolean {
    const use = this.#byTenant.get(tenantId) ?? { attempts: 0, bytes: 0 };
    if (use.attempts >= Math.min(perTenant, perProcess - this.#total.attempts)) return false;
    // A body is sent even if it alone is larger than the free bytes.
    return (
      use.attempts === 0 || use.bytes + bytes <= Math.min(bytesPerProcess / 2, bytesPerProcess - this.#total.bytes)
    );
  }

  /** Takes a place if the tenant may have it. */
  take(tenantId: string, bytes: number): boolean {
    if (!this.admits(tenantId, bytes)) return false;
    this.started(tenantId, bytes);
    return true;
  }

  started(tenantId: string, bytes: number): void {
    this.#add(tenantId, 1, bytes);
  }

  ended(tenantId: string, bytes: number): void {
    this.#add(tenantId, -1, -bytes);
  }

  #add(tenantId: string, attempts: number, bytes: number): void {
    const use = this.#byTenant.get(tenantId) ?? { attempts: 0, bytes: 0 };
    for (const counted of [use, this.#total]) {
      counted.attempts += attempts;
      counted.bytes += bytes;
    }
    if (use.attempts > 0) this.#byTenant.set(tenantId, use);
    else this.#byTenant.delete(tenantId);
  }
}
