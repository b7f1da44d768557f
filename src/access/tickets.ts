// Tickets: each opens one stream or one WebSocket within 30 seconds, for pages that cannot send a credential with it. A ticket
// is deleted in Postgres when it is presented, so that only one of two processes can use it; only its hash is stored. The stream
// has the current rights of the credential that made the ticket, as long as it is open.
// Failures: 401 for a ticket that is unknown, used or expired; 429 when too many are unused.
// Contract: browsers#tickets.
import type { App } from '../app.ts';
import { rateLimited, unauthorized } from '../errors.ts';
import { LIMITS } from '../limits.ts';
import { jsonb, sql } from '../runtime/sql.ts';
import { newToken, sha256 } from '../runtime/tokens.ts';
import type { TenantCaller } from './caller.ts';
import type { Narrowing, Opener, UsedTicket } from './opener.ts';
import { callerOfOpener } from './resolve-opener.ts';

const PREFIX = 'svc_tkt_';
const { ttlS, perCaller, perTenant } = LIMITS.ticket;

export interface IssuedTicket {
  ticket: string;
  /** ISO 8601. */
  expiresAt: string;
}

export function isTicket(value: string): boolean {
  return value.startsWith(PREFIX);
}

/** Issues a ticket for the caller's credential. 429 when the caller, or the tenant, has too many unused ones. */
export async function issueTicket(
  app: App,
  { kind, id, tenant }: TenantCaller,
  opener: Opener,
  { entities, events, follow }: Narrowing,
): Promise<IssuedTicket> {
  const ticket = newToken(PREFIX);
  const maker = id ?? kind;
  const own = sql`tenant_id = ${tenant.id}::uuid`;
  const row = await app.db.begin(async (tx) => {
    await tx.rows(sql`select pg_advisory_xact_lock(hashtext('stream tickets'), hashtext(${tenant.id}))`);
    await tx.rows(sql`delete from platform.stream_tickets where ${own} and expires_at <= now()`);
    const unused = await tx.first<{ own: number; all: number }>(sql`
      select count(*) filter (where maker = ${maker}) as own, count(*) as all
      from platform.stream_tickets where ${own}`);
    if (unused === undefined || unused.own >= perCaller || unused.all >= perTenant) {
      throw rateLimited(
        `too many tickets are unused: ${perCaller} of a user, bot or key, ${perTenant} of a tenant`,
        ttlS,
      );
    }
    return tx.first<{ expiresAt: string }>(sql`
      insert into platform.stream_tickets (hash, tenant_id, opener, maker, entities, events, follow, expires_at)
      values (decode(${hashOf(ticket)}, 'hex'), ${tenant.id}::uuid, ${jsonb(opener)}, ${maker}, ${stored(entities)},
        ${stored(events)}, ${stored(follow)}, now() + make_interval(secs => ${ttlS}::int))
      returning expires_at as "expiresAt"`);
  });
  return { ticket, expiresAt: (row as { expiresAt: string }).expiresAt };
}

/** Consumes a ticket, even if no stream opens. Resolves to its caller. 401. */
export async function useTicket(app: App, ticket: string): Promise<TenantCaller & { ticket: UsedTicket }> {
  if (!isTicket(ticket)) throw invalidTicket();
  const row = await app.db.first<Narrowing & { opener: Opener; is_live: boolean }>(sql`
    delete from platform.stream_tickets where hash = decode(${hashOf(ticket)}, 'hex')
    returning opener, entities, events, follow, expires_at > now() as is_live`);
  if (row === undefined || !row.is_live) throw invalidTicket();
  const { opener, entities, events, follow } = row;
  const caller = await callerOfOpener(app, opener);
  return { ...caller, ticket: { opener, narrowing: { entities, events, follow } } };
}

export function invalidTicket(): Error {
  return unauthorized('this ticket is unknown, used or expired');
}

function hashOf(ticket: string): string {
  return sha256(ticket).toString('hex');
}

function stored(value: object | null) {
  return value === null ? sql`null` : jsonb(value);
}
