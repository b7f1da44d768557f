// Opens the broker that the configuration asks for: on Redis for several processes, in memory for one. What a broker
// promises stands in contract.ts; failures are 503 (Redis away).
// Contract: decisions#configuration.
import type { Log } from '../log.ts';
import type { Broker } from './contract.ts';
import { MemoryBroker } from './memory.ts';
import { RedisBroker } from './redis.ts';

export type { Broker, MessageHandler, RateWindow, StreamEntry } from './contract.ts';

export interface BrokerOptions {
  /** A Redis address; without one the broker lives in this process. */
  url?: string | undefined;
  /** Prefix of every key and channel. */
  prefix?: string;
  log: Log;
}

/** Opens the broker that the configuration asks for; Redis is connected to in the background. */
export function openBroker({ url, prefix = 'svc:', log }: BrokerOptions): Broker {
  return url ? new RedisBroker(url, prefix, log) : new MemoryBroker(log);
}
