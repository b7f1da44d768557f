// A request for a ticket: whose stream the ticket opens, and how it narrows the stream. Entity names are not looked up, as in the
// parameters of a stream: what the stream shows is decided while it is open.
// Failures: 400 with every problem, 403, 429. Contract: browsers#tickets.
import { type Static, Type } from '@sinclair/typebox';
import type { TenantCaller } from '../access/caller.ts';
import { credentialsIn } from '../access/credential-kinds.ts';
import { callerOfOpener, openerOf } from '../access/resolve-opener.ts';
import { type IssuedTicket, issueTicket } from '../access/tickets.ts';
import type { App } from '../app.ts';
import { forbidden } from '../errors.ts';
import { EVENT_TYPES } from '../events/event.ts';
import { mayFollow } from '../http/changes-cursor.ts';
import { check, given } from '../http/check.ts';
import { closed, optional, Timestamp } from '../http/schemas.ts';
import { LIMITS } from '../limits.ts';
import { followOf, ticketFollow } from './followed-stream.ts';
import { requireEventTypes, requireFollowing } from './stream-filter.ts';

const { namesMax, nameMax } = LIMITS.ticket;
const { cursorMax } = LIMITS.changes;
const { conditionMax } = LIMITS.rules;

/** A list, or its names separated by commas. */
function names(what: string, examples: readonly string[]) {
  const error = `must be ${what}, in a list or separated by commas; at most ${namesMax}`;
  const list = Type.Array(Type.String({ minLength: 1, maxLength: nameMax }), { maxItems: namesMax });
  const text = Type.String({ maxLength: namesMax * (nameMax + 1) });
  return optional(Type.Union([list, text], { error, description: `${what}; default: all`, examples: [examples] }));
}

function text(description: string, maxLength: number) {
  return optional(Type.String({ maxLength, description }));
}

export const NewTicket = closed({
  entities: names('names of entities', ['companies']),
  events: names('types of events', EVENT_TYPES.slice(0, 2)),
  since: text('a cursor of changes, from which the stream begins; empty: from now, with cursors', cursorMax),
  filters: text('a condition on the changed records of the one entity named', conditionMax),
  view: text('the slug of a view, whose entity and conditions apply', nameMax),
  transitions: optional(Type.Boolean({ description: 'show updates that move a record in or out as such' })),
});
export const TicketSchema = Type.Object({
  ticket: Type.String({ description: 'shown once', examples: ['svc_tkt_...'] }),
  expiresAt: Timestamp,
});

/** A ticket for a stream with the caller's rights. 403 for another tenant and a public key without `channels:read`. */
export async function requestTicket(
  app: App,
  caller: TenantCaller,
  request: Request,
  slug: string,
  body: Static<typeof NewTicket>,
): Promise<IssuedTicket> {
  if (caller.tenant.slug !== slug) throw forbidden('this credential belongs to another tenant');
  if (!mayFollow(caller)) {
    throw forbidden('this key lacks the scope channels:read');
  }
  const { entities, events, since, filters, view, transitions } = check(NewTicket, body);
  const asked = { since, filters, view, transitions };
  const { follow } = followOf(given(asked), null);
  const named = { entities: listed(entities), events: listed(events) };
  requireEventTypes(named.events ?? [], follow);
  const [credential] = credentialsIn(request.headers).filter(({ kind }) => kind !== 'admin_key');
  if (credential === undefined) throw forbidden();
  const opener = await openerOf(app, caller.tenant.id, credential);
  if (follow !== null) await requireFollowing(app, await callerOfOpener(app, opener), named, follow);
  return issueTicket(app, caller, opener, { ...named, follow: follow && (await ticketFollow(app, caller, follow)) });
}

/** Null for a missing or empty list, which selects everything. */
function listed(given: readonly string[] | string | null | undefined): string[] | null {
  const all = typeof given === 'string' ? given.split(',') : (given ?? []);
  const kept = new Set(all.map((name) => name.trim()).filter((name) => name !== ''));
  return kept.size === 0 ? null : [...kept];
}
