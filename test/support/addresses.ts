// Addresses for clients of a service that trusts a proxy. What comes from one address is counted for a minute in
// stores that files and runs share, so each is drawn from far more than all of them use.
import { randomBytes } from 'node:crypto';

/** The header of a request from an address that no other has come from, in this file or another. */
export function newAddress(): Record<string, string> {
  const groups = randomBytes(14).toString('hex').match(/.{4}/g) ?? [];
  return { 'x-forwarded-for': `fd00:${groups.join(':')}` };
}
