// From a receiver's URL to the addresses to connect to. Every address that the name has must be
// allowed, and the connection goes to one of those that were checked: the name is not looked up a
// second time. Lookups have a deadline. A failure is a short word for the delivery.
// Contract: decisions#webhook-requests.
import { lookup } from 'node:dns/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { type App, perApp } from '../../app.ts';
import { AllowedAddresses, literalOf, urlFault } from './address.ts';

/** One address of a name. */
export interface Resolved {
  address: string;
  family: number;
}

/** Looks up all addresses of a name; rejects when it has none. */
export type Resolver = (name: string) => Promise<readonly Resolved[]>;

export type Receiver =
  | { url: URL; addresses: readonly Resolved[] }
  /** `isRefused`: it must not be called. Otherwise it could not be found, for now. */
  | { fault: string; isRefused: boolean };

const systemResolver: Resolver = (name) => lookup(name, { all: true, verbatim: true });

const resolverOf = perApp(() => systemResolver);
const allowedOf = perApp(({ config }) => new AllowedAddresses(config.webhook.allowedCidrs));

/** Replaces the lookup of names, for a private network's own or a test's. */
export function useResolver(app: App, resolver: Resolver): void {
  resolverOf.set(app, resolver);
}

/** Where a URL leads at this moment, within `timeoutMs`. Never rejects. */
export async function resolveReceiver(app: App, text: string, timeoutMs: number): Promise<Receiver> {
  if (urlFault(text) !== undefined) return { fault: 'url not allowed', isRefused: true };
  const url = new URL(text);
  const found = await addressesOf(app, url, timeoutMs);
  if (found.length === 0) return { fault: 'host not found', isRefused: false };
  const allowed = allowedOf(app);
  if (found.some(({ address }) => !allowed.allows(address))) return { fault: 'address not allowed', isRefused: true };
  return { url, addresses: found };
}

async function addressesOf(app: App, url: URL, timeoutMs: number): Promise<readonly Resolved[]> {
  const literal = literalOf(url);
  if (literal !== undefined) return [{ address: literal, family: literal.includes(':') ? 6 : 4 }];
  const resolve = resolverOf(app);
  const over = new AbortController();
  const deadline = delay(timeoutMs, [], { signal: over.signal }).catch(() => []);
  // A name without addresses and a resolver that is away are one to the delivery: it is tried again.
  const found = resolve(url.hostname).catch(() => []);
  const addresses = await Promise.race([found, deadline]);
  over.abort();
  return addresses;
}
