// Connections to receivers, kept open while deliveries of one subscription follow one another. One that
// was open for another subscription, another origin or other addresses than those just checked is never
// used, and none is kept idle for longer than receivers are known to keep theirs.
// Contract: decisions#webhook-requests.
import { Agent as HttpAgent } from 'node:http';
import { Agent as HttpsAgent } from 'node:https';
import { LIMITS } from '../../limits.ts';
import type { Resolved } from './receiver.ts';

interface PooledAgent {
  agent: HttpAgent | HttpsAgent;
  inUse: number;
  /** When the last one came free, in ms since the epoch. */
  freeSince: number;
}

/** A way to a receiver, to be given back when the exchange is over. */
export interface AgentLease {
  agent: HttpAgent | HttpsAgent;
  release(): void;
}

export class KeepAliveAgents {
  readonly #kept = new Map<string, PooledAgent>();
  #sweeping: ReturnType<typeof setInterval> | undefined;

  lease(subscriptionId: string, url: URL, addresses: readonly Resolved[]): AgentLease {
    // A name's addresses come in another order each time.
    const key = [subscriptionId, url.origin, ...addresses.map(({ address }) => address).sort()].join(' ');
    const kept = this.#kept.get(key) ?? { agent: agentFor(url), inUse: 0, freeSince: 0 };
    this.#kept.set(key, kept);
    this.#sweeping ??= setInterval(() => this.#sweep(), LIMITS.webhook.idleMs / 2);
    kept.inUse++;
    const release = (): void => {
      kept.inUse--;
      kept.freeSince = Date.now();
    };
    return { agent: kept.agent, release };
  }

  /** Closes those that are not in use; the others close when they come free. */
  close(): void {
    for (const { agent, inUse } of this.#kept.values()) if (inUse === 0) agent.destroy();
    clearInterval(this.#sweeping);
  }

  #sweep(): void {
    const before = Date.now() - LIMITS.webhook.idleMs;
    for (const [key, { agent, inUse, freeSince }] of this.#kept) {
      if (inUse > 0 || freeSince > before) continue;
      agent.destroy();
      this.#kept.delete(key);
    }
    if (this.#kept.size > 0) return;
    clearInterval(this.#sweeping);
    this.#sweeping = undefined;
  }
}

function agentFor({ protocol }: URL): HttpAgent | HttpsAgent {
  const options = { keepAlive: true, maxFreeSockets: LIMITS.webhook.perSubscription };
  return protocol === 'https:' ? new HttpsAgent(options) : new HttpAgent(options);
}
