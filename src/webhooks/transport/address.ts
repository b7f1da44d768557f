// Where a webhook may be sent: which URLs are accepted, and which addresses may be connected to.
// Addresses are judged as numbers, whatever they are written as; only public ones pass, but for the
// ranges in WEBHOOK_ALLOWED_CIDRS. Faults are sentences for a 400, or short words on a delivery.
// Contract: decisions#webhook-requests.
import ipaddr from 'ipaddr.js';
import { LIMITS } from '../../limits.ts';

type Address = ipaddr.IPv4 | ipaddr.IPv6;

/** Ports below 1024 other than these, and these above it, belong to services that a POST could talk to by accident. */
const LOW_PORTS = new Set(['', '80', '443']);
const REFUSED_PORTS = new Set([
  '1433',
  '1521',
  '2049',
  '2375',
  '2379',
  '3306',
  '5432',
  '6000',
  '6379',
  '9042',
  '11211',
]);

/** What is wrong with a receiver's URL as text; undefined when it is acceptable so far. */
export function urlFault(text: string): string | undefined {
  // The URL parser would drop or turn what people do not see.
  if (text.length > LIMITS.webhook.urlMax || /[\s\u0000-\u001f\u007f\\]/.test(text)) return 'is not a URL';
  if (!URL.canParse(text)) return 'is not a URL';
  const url = new URL(text);
  if (!/^https?:\/\/[^/]/i.test(text) || !/^https?:$/.test(url.protocol)) return 'must start http:// or https://';
  if (url.username !== '' || url.password !== '' || /^https?:\/\/[^/?#]*@/i.test(text)) {
    return 'must not hold credentials';
  }
  if (!LOW_PORTS.has(url.port) && (Number(url.port) < 1024 || REFUSED_PORTS.has(url.port))) {
    return 'names a port that receivers may not have';
  }
  return undefined;
}

/** The address that a URL's host is, when it is one and no name. */
export function literalOf(url: URL): string | undefined {
  const host = url.hostname.replace(/^\[|\]$/g, '');
  return ipaddr.isValid(host) ? host : undefined;
}

/** Decides over addresses: the public ones, and those in the given ranges. */
export class AllowedAddresses {
  readonly #ranges: readonly [Address, number][];

  /** Throws for a text that is no CIDR range. */
  constructor(cidrs: readonly string[]) {
    this.#ranges = cidrs.map((cidr) => ipaddr.parseCIDR(cidr));
  }

  /** Whether the address, in any of its spellings, may be connected to. */
  allows(address: string): boolean {
    if (!ipaddr.isValid(address) || address.includes('%')) return false;
    const parsed = unmapped(ipaddr.parse(address));
    if (this.#ranges.some(([range, bits]) => range.kind() === parsed.kind() && parsed.match(range, bits))) return true;
    return isPublic(parsed);
  }
}

/** An IPv4 address that was written as an IPv6 one. */
function unmapped(address: Address): Address {
  return address instanceof ipaddr.IPv6 && address.isIPv4MappedAddress() ? address.toIPv4Address() : address;
}

/** Global unicast; of IPv6 only what is allocated as such, less the parts that stand for IPv4 addresses. */
function isPublic(address: Address): boolean {
  if (address.range() !== 'unicast') return false;
  if (address instanceof ipaddr.IPv4) return true;
  return address.match(ipaddr.IPv6.parse('2000::'), 3);
}
