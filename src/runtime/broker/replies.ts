// Replies of Redis: the deadline of a command, the error that its caller gets, the fields of a stream's entry, and a pass over
// all entries of a stream.
// Times are milliseconds.
// Failures: 503 when Redis is unavailable, refuses commands as a whole, or does not reply in time; other error replies pass through.
import type { Redis } from 'ioredis';
import { ServiceError, unavailable } from '../../errors.ts';
import { giveWay } from '../event-loop.ts';

const GRACE_MS = 50;
/** Entries read at once; an entry has at most 96 KB. */
const PAGE_ENTRIES = 20;

/** The grace period after the deadline is for a reply that arrived while the event loop was stalled. */
export function replyWithin<T>(work: Promise<T>, ms: number, onLate = () => {}): Promise<T> {
  return new Promise((resolve, reject) => {
    const late = (): void => {
      reject(unavailable('the broker took too long to answer'));
      onLate();
    };
    let timer = setTimeout(() => {
      timer = setTimeout(late, GRACE_MS);
    }, ms);
    work.then(resolve, (error) => reject(callerError(error))).finally(() => clearTimeout(timer));
  });
}

/**
 * Error replies to any command: the server is full, is loading its data, has become a replica, or requires credentials. In older
 * versions, an error inside a script begins with a dash.
 */
const REFUSAL =
  /(?:^|-)(?:OOM|LOADING|READONLY|MASTERDOWN|MISCONF|NOREPLICAS|CLUSTERDOWN|BUSY|NOAUTH|WRONGPASS|NOPERM) /;

/** Other error replies (wrong type) pass through; any other error means that Redis is unavailable. */
function callerError(error: unknown): unknown {
  const isReply = error instanceof Error && error.name === 'ReplyError' && !REFUSAL.test(error.message);
  return isReply || error instanceof ServiceError ? error : unavailable('the broker is not available', error);
}

export function toRecord(pairs: readonly string[]): Record<string, string> {
  const record: Record<string, string> = {};
  for (let i = 0; i + 1 < pairs.length; i += 2) record[String(pairs[i])] = String(pairs[i + 1]);
  return record;
}

/** Removes entries of a stream; `key` has the prefix. */
export async function removeEntries(
  commands: Redis,
  key: string,
  isUnwanted: (fields: Record<string, string>) => boolean,
  reply: <T>(work: Promise<T>) => Promise<T>,
): Promise<void> {
  for (let from = '-'; ; ) {
    const entries = await reply(commands.xrange(key, from, '+', 'COUNT', PAGE_ENTRIES));
    const unwanted: string[] = [];
    for (const [id, pairs] of entries) {
      await giveWay();
      if (isUnwanted(toRecord(pairs))) unwanted.push(id);
    }
    if (unwanted.length > 0) await reply(commands.xdel(key, ...unwanted));
    const last = entries.at(-1);
    if (last === undefined) return;
    from = `(${last[0]}`;
  }
}
