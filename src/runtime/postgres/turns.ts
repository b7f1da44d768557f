// Cancels long reads of a tenant that exceed its limit, to run them again in turn. A tenant that was alone may have started many before
// another one became active, and a statement is known to be long only once it has run. Three such reads of 2.4 s left the process a fifth
// of a processor. Times are milliseconds. Contract: neighbours#fair-shares.
import type { FairQueue } from '../fair-queue.ts';
import type { Ticket } from '../fair-share.ts';
import type { Lease } from './lease.ts';
import type { PoolWaiter } from './pool-options.ts';

/** A read that has run for longer continues, even if it exceeds the limit. */
const YIELD_MAX_MS = 4_000;
/** Statements that change or lock something. */
const CHANGES = /\b(insert|update|delete|for share)\b/i;

/** The reads that exceed the limit: the last ones of each tenant. `leases` are in the order of their start. */
export function tooMany(
  leases: ReadonlyMap<Lease, Ticket<PoolWaiter>>,
  queue: FairQueue<PoolWaiter>,
  now: number,
): Lease[] {
  const found = new Map<string, Lease[]>();
  for (const [lease, ticket] of [...leases].reverse()) {
    if (now - lease.startedAt > YIELD_MAX_MS) break;
    const { statement } = ticket.item;
    if (statement?.mayYield !== true) continue;
    const ofOwner = found.get(ticket.share.owner) ?? [];
    if (ofOwner.length >= queue.excess(ticket) || CHANGES.test(statement.text)) continue;
    found.set(ticket.share.owner, [...ofOwner, lease]);
  }
  return [...found.values()].flat();
}
