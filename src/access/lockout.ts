// Limits password and bot secret attempts: 20 a minute per client address, and after 5 failures on one account within
// 15 minutes, a 401 to every attempt for the next 15. A failure is stored before the secret is verified and removed on
// success, so that parallel attempts cannot exceed the limit, on any number of processes.
// Failures: 401, 429. Contract: decisions#lockout.
import type { App } from '../app.ts';
import { unauthorized } from '../errors.ts';
import { LIMITS } from '../limits.ts';
import { KeyedLock } from '../runtime/concurrency.ts';
import { type Sql, sql } from '../runtime/sql.ts';
import { sha256 } from '../runtime/tokens.ts';
import { withoutSignal } from '../runtime/work.ts';
import type { AccountKind } from './credential-kinds.ts';
import { countRequest } from './rate-limit.ts';
import { clientNetworkOf } from './request-context.ts';

/** An account whose attempts are counted, whether it exists or not. */
export interface Account {
  kind: AccountKind;
  tenantId: string;
  /** E-mail address or bot name, in its canonical form. */
  name: string;
}

/** Attempts on one account run serially in a process; at most this many wait. */
const WAITING_MAX = 100;
/** Attempts between two deletions of expired rows. */
const SWEEP_EVERY = 100;

const { failuresMax, windowS, perAddress, perAddressWindowS } = LIMITS.attempts;
const accounts = new KeyedLock(WAITING_MAX);
let attempts = 0;

/** Counts an attempt or a registration, separately, by the client's network. 429 over the limit. */
export async function limitAttempts(
  app: App,
  request: Request,
  name: 'attempts' | 'registrations' = 'attempts',
): Promise<void> {
  const key = `${name}:${clientNetworkOf(request)}`;
  await countRequest(app, request, [{ name, key, quota: perAddress, windowS: perAddressWindowS }]);
}

/** Counts a request for a mail in the same way. Returns false over the limit, which the response must not reveal. */
export async function isWithinLimit(app: App, request: Request, name: 'resets'): Promise<boolean> {
  const key = `rate:${name}:${clientNetworkOf(request)}`;
  const { count } = await app.broker.count(key, perAddressWindowS * 1_000);
  return count <= perAddress;
}

/**
 * Makes one attempt: resolves when `verify` returns true. 401 for a wrong secret or a locked account. If `verify`
 * throws, the attempt does not count.
 */
export async function guardAccount(app: App, account: Account, verify: () => Promise<boolean>): Promise<void> {
  const hash = sha256(`${account.kind} ${account.tenantId} ${account.name}`).toString('hex');
  await accounts.run(hash, () => countedAttempt(app, sql`decode(${hash}, 'hex')`, verify));
}

async function countedAttempt(app: App, account: Sql, verify: () => Promise<boolean>): Promise<void> {
  if (++attempts % SWEEP_EVERY === 0) await sweep(app);
  if (!(await countFailure(app, account))) throw unauthorized('wrong credentials');
  let isCorrect: boolean;
  try {
    isCorrect = await verify();
  } catch (error) {
    await withoutSignal(() => uncountFailure(app, account));
    throw error;
  }
  if (!isCorrect) throw unauthorized('wrong credentials');
  await app.db.rows(sql`delete from platform.lockouts where account = ${account}`);
}

/** Counts a failure; the last one allowed locks the account. False when it is already locked. */
async function countFailure(app: App, account: Sql): Promise<boolean> {
  const window = sql`make_interval(secs => ${windowS}::int)`;
  const isExpired = sql`(l.locked_until is not null or l.window_started_at <= now() - ${window})`;
  const failures = sql`case when ${isExpired} then 1 else l.failures + 1 end`;
  const row = await app.db.first(sql`
    insert into platform.lockouts as l (account, failures, window_started_at)
    values (${account}, 1, now())
    on conflict (account) do update
    set failures = ${failures},
      window_started_at = case when ${isExpired} then now() else l.window_started_at end,
      locked_until = case when ${failures} >= ${failuresMax}::int then now() + ${window} end
    where l.locked_until is null or l.locked_until <= now()
    returning failures`);
  return row !== undefined;
}

/** Undoes `countFailure` for an attempt that could not be verified. */
async function uncountFailure(app: App, account: Sql): Promise<void> {
  await app.db.rows(sql`
    update platform.lockouts set failures = greatest(failures - 1, 0), locked_until = null
    where account = ${account}`);
}

async function sweep(app: App): Promise<void> {
  await app.db.rows(sql`
    delete from platform.lockouts
    where window_started_at < now() - 2 * make_interval(secs => ${windowS}::int)
      and (locked_until is null or locked_until < now())`);
}
