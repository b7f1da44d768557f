// Which receivers may be called (protection against SSRF): acceptable URLs, and addresses that are public or in
// WEBHOOK_ALLOWED_CIDRS. Every address of a name must be allowed, and the connection uses one of the checked
// addresses: the name is not resolved again. Addresses are compared as numbers, so their notation does not matter.
// Faults are messages of a 400, or short labels on a delivery. Contract: decisions#webhook-requests.
import ipaddr from 'ipaddr.js';
import { type App, perApp } from '../../app.ts';
import { LIMITS } from '../../limits.ts';
import { addressesOf as addressesInDns, openResolver, type ResolvedAddress } from '../../runtime/dns.ts';
import { within } from '../../runtime/within.ts';

export type { ResolvedAddress } from '../../runtime/dns.ts';

type Address = ipaddr.IPv4 | ipaddr.IPv6;

/** The only ports below 1024 that are allowed. FORBIDDEN_PORTS belong to services that might act on a POST. */
const LOW_PORTS = new Set(['', '80', '443']);
const FORBIDDEN_PORTS = new Set('1433 1521 2049 2375 2379 3306 5432 6000 6379 9042 11211'.split(' '));

/** Looks up all addresses of a name; rejects when it has none. */
type Resolver = (name: string) => Promise<readonly ResolvedAddress[]>;

export interface Receiver {
  url: URL;
  addresses: readonly ResolvedAddress[];
}

/** A forbidden receiver is never called; any other fault is worth a retry. */
interface UnusableReceiver {
  fault: string;
  isForbidden: boolean;
}

/** The deadline of one of two DNS queries; an attempt's own deadline may be shorter. */
const DNS_TIMES = { timeout: 5_000, tries: 2 };
const resolverOf = perApp(({ config }): Resolver => {
  const resolver = openResolver(config.dnsServers, DNS_TIMES);
  return (name) => addressesInDns(resolver, name);
});
const allowedOf = perApp(({ config }) => new AllowedAddresses(config.webhook.allowedCidrs));

/** Replaces name resolution, for private networks and tests. */
export function useResolver(app: App, resolver: Resolver): void {
  resolverOf.set(app, resolver);
}

/** What is wrong with a receiver's URL as text; undefined when it is acceptable. */
export function urlFault(text: string): string | undefined {
  // The URL parser drops or rewrites these characters silently.
  if (text.length > LIMITS.webhook.urlMax || /[\s\u0000-\u001f\u007f\\]/.test(text)) return 'is not a URL';
  if (!URL.canParse(text)) return 'is not a URL';
  const url = new URL(text);
  if (!/^https?:\/\/[^/]/i.test(text) || !/^https?:$/.test(url.protocol)) return 'must start http:// or https://';
  if (url.username !== '' || url.password !== '' || /^https?:\/\/[^/?#]*@/i.test(text)) {
    return 'must not contain credentials';
  }
  if (!LOW_PORTS.has(url.port) && (Number(url.port) < 1024 || FORBIDDEN_PORTS.has(url.port))) {
    return 'has a port that is not allowed';
  }
  return undefined;
}

/** The addresses behind a URL, within `timeoutMs`. Never rejects. */
export async function resolveReceiver(app: App, text: string, timeoutMs: number): Promise<Receiver | UnusableReceiver> {
  if (urlFault(text) !== undefined) return { fault: 'url not allowed', isForbidden: true };
  const url = new URL(text);
  const addresses = await addressesOf(app, url, timeoutMs);
  if (addresses.length === 0) return { fault: 'host not found', isForbidden: false };
  const allowed = allowedOf(app);
  const isAllowed = addresses.every(({ address }) => allowed.allows(address));
  return isAllowed ? { url, addresses } : { fault: 'address not allowed', isForbidden: true };
}

async function addressesOf(app: App, url: URL, timeoutMs: number): Promise<readonly ResolvedAddress[]> {
  const literal = addressLiteral(url);
  if (literal !== undefined) return [{ address: literal, family: literal.includes(':') ? 6 : 4 }];
  // A delivery is retried in the same way for an unknown name and for an unreachable resolver.
  return within(timeoutMs, resolverOf(app)(url.hostname)).catch(() => []);
}

/** The URL's host if it is an IP address; undefined for a name. */
export function addressLiteral(url: URL): string | undefined {
  const host = url.hostname.replace(/^\[|\]$/g, '');
  return ipaddr.isValid(host) ? host : undefined;
}

export class AllowedAddresses {
  readonly #ranges: readonly [Address, number][];

  /** Throws for an invalid CIDR range. */
  constructor(cidrs: readonly string[]) {
    this.#ranges = cidrs.map((cidr) => ipaddr.parseCIDR(cidr));
  }

  /** Whether the address, in any notation, is public or in one of the ranges. */
  allows(address: string): boolean {
    if (!ipaddr.isValid(address) || address.includes('%')) return false;
    const parsed = unmapped(ipaddr.parse(address));
    if (this.#ranges.some(([range, bits]) => range.kind() === parsed.kind() && parsed.match(range, bits))) return true;
    return isPublic(parsed);
  }
}

/** Turns an IPv4-mapped IPv6 address into the IPv4 address. */
function unmapped(address: Address): Address {
  return address instanceof ipaddr.IPv6 && address.isIPv4MappedAddress() ? address.toIPv4Address() : address;
}

/** Global unicast; of IPv6 only the allocated block, without the ranges that embed IPv4 addresses. */
function isPublic(address: Address): boolean {
  if (address.range() !== 'unicast') return false;
  if (address instanceof ipaddr.IPv4) return true;
  return address.match(ipaddr.IPv6.parse('2000::'), 3);
}
