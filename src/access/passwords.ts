// Passwords, as scrypt hashes in a self-describing text: scrypt$N$r$p$salt$hash. Hashing runs on
// the thread pool behind a gate, so that a storm of logins cannot starve other requests; what the
// gate has no room for gets 503. Contract: decisions#identity.
import { randomBytes, type ScryptOptions, scrypt, timingSafeEqual } from 'node:crypto';
import { availableParallelism } from 'node:os';
import { LIMITS } from '../limits.ts';
import { Semaphore } from '../runtime/concurrency.ts';

const COST = { N: 16_384, r: 8, p: 1 } as const;
const HASH_BYTES = 32;
const SALT_BYTES = 16;
/** Half of the machine may hash; the rest serves. */
const HASHING = Math.max(1, Math.floor(availableParallelism() / 2));
/** About two seconds of work for each slot. */
const WAITING_MAX = 50 * HASHING;
const gate = new Semaphore(HASHING, WAITING_MAX);

/** No password has this hash. Checking against it takes as long as against a real one. */
const NOBODYS = `scrypt$${COST.N}$${COST.r}$${COST.p}$${Buffer.alloc(SALT_BYTES).toString('base64')}$${Buffer.alloc(HASH_BYTES).toString('base64')}`;

/** Why a password is not acceptable, or undefined. */
export function passwordProblem(password: unknown): string | undefined {
  const { min, max } = LIMITS.password;
  const isFit = typeof password === 'string' && password.length >= min && password.length <= max;
  return isFit ? undefined : `must be a text of ${min} to ${max} characters`;
}

export async function hashPassword(password: string): Promise<string> {
  const salt = randomBytes(SALT_BYTES);
  const hash = await derive(password, salt, HASH_BYTES, COST);
  return `scrypt$${COST.N}$${COST.r}$${COST.p}$${salt.toString('base64')}$${hash.toString('base64')}`;
}

/** Whether the password is the one hashed. For null (nobody, or no password) it takes as long to say no. */
export async function verifyPassword(password: string, stored: string | null): Promise<boolean> {
  const [, N, r, p, salt = '', hash = ''] = (stored ?? NOBODYS).split('$');
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
  return gate.run(hashed);
}
