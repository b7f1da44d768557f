// Password hashes: scrypt, stored as scrypt$N$r$p$salt$hash. Hashing runs on the thread pool behind a semaphore,
// so that a burst of logins leaves CPU for other requests. Failures: 503 when the queue is full.
// Contract: decisions#identity.
import { randomBytes, type ScryptOptions, scrypt, timingSafeEqual } from 'node:crypto';
import { availableParallelism } from 'node:os';
import { Semaphore } from '../runtime/concurrency.ts';

const COST = { N: 16_384, r: 8, p: 1 } as const;
const HASH_BYTES = 32;
const SALT_BYTES = 16;
/** Half of the CPUs, so that the others keep serving. */
const CONCURRENCY = Math.max(1, Math.floor(availableParallelism() / 2));
/** How many may wait in one share: about two seconds of work per slot. */
const WAITING_MAX = 50 * CONCURRENCY;
const WAIT_MS = 10_000;
const semaphore = new Semaphore({
  name: 'passwords',
  slots: CONCURRENCY,
  shareWaitingMax: WAITING_MAX,
  waitMs: WAIT_MS,
});

/** A hash that no password matches; verifying it takes as long as verifying a real one. */
const UNMATCHABLE = encode(Buffer.alloc(SALT_BYTES), Buffer.alloc(HASH_BYTES));

export async function hashPassword(password: string): Promise<string> {
  const salt = randomBytes(SALT_BYTES);
  const hash = await derive(password, salt, HASH_BYTES, COST);
  return encode(salt, hash);
}

function encode(salt: Buffer, hash: Buffer): string {
  return `scrypt$${COST.N}$${COST.r}$${COST.p}$${salt.toString('base64')}$${hash.toString('base64')}`;
}

/** Whether the password matches the hash. For null (no such user or no password): false, after the same time. */
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
