// Keep-alive connections to receivers, reused by consecutive deliveries of one subscription. A connection is never
// shared with another subscription, origin or set of checked addresses, and is closed before receivers usually close
// idle ones. Contract: decisions#webhook-requests.
import { Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import { LIMITS } from '../../limits.ts';
import type { Receiver } from './receiver.ts';

interface PooledAgent {
  agent: HttpAgent | HttpsAgent;
  leases: number;
  /** When the last lease was released, in ms since the epoch. */
  idleSince: number;
}

export interface AgentLease {
  agent: HttpAgent | HttpsAgent;
  release(): void;
}

export class KeepAliveAgents {
  readonly #agents = new Map<string, PooledAgent>();
  #sweeping: ReturnType<typeof setInterval> | undefined;

  lease(subscriptionId: string, { url, addresses }: Receiver): AgentLease {
    // The resolver returns a name's addresses in varying order.
    const key = [subscriptionId, url.origin, ...addresses.map(({ address }) => address).sort()].join(' ');
    const pooled = this.#agents.get(key) ?? { agent: agentFor(url), leases: 0, idleSince: 0 };
    this.#agents.set(key, pooled);
    this.#sweeping ??= setInterval(() => this.#sweep(), LIMITS.webhook.idleMs / 2);
    pooled.leases++;
    const release = (): void => {
      pooled.leases--;
      pooled.idleSince = Date.now();
    };
    return { agent: pooled.agent, release };
  }

  /** Closes the agents that are not leased. */
  close(): void {
    for (const { agent, leases } of this.#agents.values()) if (leases === 0) agent.destroy();
    clearInterval(this.#sweeping);
  }

  #sweep(): void {
    const before = Date.now() - LIMITS.webhook.idleMs;
    for (const [key, { agent, leases, idleSince }] of this.#agents) {
      if (leases > 0 || idleSince > before) continue;
      agent.destroy();
      this.#agents.delete(key);
    }
    if (this.#agents.size > 0) return;
    clearInterval(this.#sweeping);
    this.#sweeping = undefined;
  }
}

function agentFor({ protocol }: URL): HttpAgent | HttpsAgent {
  const options = { keepAlive: true, maxFreeSockets: LIMITS.webhook.perSubscription };
  return protocol === 'https:' ? new HttpsAgent(options) : new HttpAgent(options);
}
