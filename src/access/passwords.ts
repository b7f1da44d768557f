// Passwords as scrypt hashes in a self-describing text: scrypt$N$r$p$salt$hash. Hashing runs on the thread pool
// behind a semaphore, so that a burst of logins leaves CPU for other requests; past its queue, 503.
// Contract: decisions#identity.
import { randomBytes, type ScryptOptions, scrypt, timingSafeEqual } from 'node:crypto';
import { availableParallelism } from 'node:os';
import { Semaphore } from '../runtime/concurrency.ts';

const COST = { N: 16_384, r: 8, p: 1 } as const;
const HASH_BYTES = 32;
const SALT_BYTES = 16;
/** Half of the CPUs may hash; the others keep serving. */
const HASHING = Math.max(1, Math.floor(availableParallelism() / 2));
/** About two seconds of work per slot. */
const WAITING_MAX = 50 * HASHING;
const semaphore = new Semaphore(HASHING, WAITING_MAX);

/** A hash that no password has; checking it takes as long as checking a real one. */
const UNMATCHABLE = `scrypt$${COST.N}$${COST.r}$${COST.p}$${Buffer.alloc(SALT_BYTES).toString('base64')}$${Buffer.alloc(HASH_BYTES).toString('base64')}`;

export async function hashPassword(password: string): Promise<string> {
  const salt = randomBytes(SALT_BYTES);
  const hash = await derive(password, salt, HASH_BYTES, COST);
  return `scrypt$${COST.N}$${COST.r}$${COST.p}$${salt.toString('base64')}$${hash.toString('base64')}`;
}

/** Whether the password matches the hash. For null (no such user, or no password) it takes as long to return false. */
export async function verifyPassword(password: string, stored: string | null): Promise<boolean> {
  const [, N, r, p, salt = '', hash = ''] = (stored ?? UNMATCHABLE).split('$');
  const expected = Buffer.from(hash, 'base64');
  const cost = { N: Number(N), r: Number(r), p: Number(p) };
  const actual = await derive(password, Buffer.from(salt, 'base64'), expected.length, cost);
  return timingSafeEqual(actual, expected) && stored !== null;
}

function derive(password: string, salt: Buffer, bytes: number, cost: ScryptOptions): Promise<Buffer> {
  const hashed = (): Promise<Buffer> =>
    new Promise((resolve, reject) => {
      scrypt(password.normalize('NFKC'), salt, bytes, cost, (error, key) => (error ? reject(error) : resolve(key)));
    });
  return semaphore.run(hashed);
}
