// The part of a credential that a stream keeps, so that its rights can be loaded again without the credential's value: a
// reference to the stored key, the claims of the token, or the super-admin in a tenant; and what a ticket narrows the stream to.
// Pure; resolve-opener.ts resolves it to a caller.
// Contract: browsers#tickets.
import type { StoredKind } from './credential-kinds.ts';
import type { Claims } from './jwt.ts';

export type Opener =
  | { kind: StoredKind; hash: string }
  | { kind: 'token'; claims: Claims }
  | { kind: 'super_admin'; tenantId: string };

/** The restrictions of a stream; null does not restrict. */
export interface Narrowing {
  entities: readonly string[] | null;
  events: readonly string[] | null;
  follow: Follow | null;
}

/** Where a stream begins and what it shows of the feed of changes; null for a stream of live events only. */
export interface Follow {
  since: string | null;
  /**
   * A cursor: no stream begins before it. It is the ticket's `since`, or the time when the ticket was made. Null without
   * `since`.
   */
  from: string | null;
  filters: string | null;
  /** A view's slug. */
  view: string | null;
  transitions: boolean;
}

export const NOT_NARROWED: Narrowing = { entities: null, events: null, follow: null };

/** Whether a list of a narrowing admits a name. */
export function admits(names: readonly string[] | null, name: string): boolean {
  return names === null || names.includes(name);
}

/**
 * Whether the narrowing admits an event that is not the change of a record. Such an event has no values that a condition or view
 * could be applied to, and messages and notices have no entity either; but a type that the narrowing names is admitted.
 */
export function admitsOther({ entities, events, follow }: Narrowing, type: string): boolean {
  if (events?.includes(type) === true) return true;
  const isConditional = follow !== null && (follow.filters !== null || follow.view !== null);
  return !isConditional && (entities === null || type.startsWith('rule.'));
}

/** A ticket that has just been used. */
export interface UsedTicket {
  opener: Opener;
  narrowing: Narrowing;
}

/** A key that is equal for openers with the same rights. A user token counts as its session, which a refresh does not end. */
export function openerKey(opener: Opener): string {
  if (opener.kind === 'super_admin') return `super_admin ${opener.tenantId}`;
  if (opener.kind !== 'token') return `${opener.kind} ${opener.hash}`;
  const { kind, tenantId, subject, version, expiresAtS, session } = opener.claims;
  return `${kind} ${tenantId} ${subject} ${version} ${session?.id ?? expiresAtS}`;
}
