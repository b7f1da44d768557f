// Client addresses for a service that trusts a proxy. Requests are counted per address for a minute, in stores that
// files and runs share, so addresses are random and never repeat.
import { randomBytes } from 'node:crypto';

/** The X-Forwarded-For header of a new address. */
export function newAddress(): Record<string, string> {
  const groups = randomBytes(14).toString('hex').match(/.{4}/g) ?? [];
  return { 'x-forwarded-for': `fd00:${groups.join(':')}` };
}
