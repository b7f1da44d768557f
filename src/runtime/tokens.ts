// Creation and hashing of the secrets the service issues. They have 192 random bits and are stored as SHA-256
// only, since they need no slow hash. Comparisons take constant time.
// Contract: decisions#keys.
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';

const TOKEN_BYTES = 24;
const PREFIX_SHOWN = 9;

/** A new secret value: the prefix and 48 hexadecimal characters (192 bits). */
export function newToken(prefix: string): string {
  return prefix + randomBytes(TOKEN_BYTES).toString('hex');
}

/** The first characters of a value, the only part that listings show. */
export function displayPrefix(value: string, prefix: string): string {
  return value.slice(0, prefix.length + PREFIX_SHOWN);
}

export function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

/** Whether a presented secret is one of the accepted ones, in constant time. */
export function matchesSecret(presented: string, accepted: readonly string[]): boolean {
  const digest = sha256(presented);
  let matches = false;
  for (const secret of accepted) matches = timingSafeEqual(digest, sha256(secret)) || matches;
  return matches;
}
