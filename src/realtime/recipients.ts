// The connections of a tenant that get an event, and their order. A large event goes to all connections with the same view of it
// before it is serialized for connections that see something else: 200 roles may each see a different part of a megabyte.
// Contract: neighbours#fair-shares.
import type { Entity } from '../entities/field.ts';
import type { Membership } from './membership.ts';

type Recipients = Iterable<ReadonlySet<Membership>>;

const NO_MEMBERS: ReadonlySet<Membership> = new Set();

/** Memberships by subscribed entity, and under ALL_ENTITIES. */
export class MembersByEntity {
  readonly #members = new Map<string, Set<Membership>>();

  of(entity: string): ReadonlySet<Membership> {
    return this.#members.get(entity) ?? NO_MEMBERS;
  }

  add(membership: Membership): void {
    for (const entity of membership.entities) {
      this.#members.set(entity, (this.#members.get(entity) ?? new Set()).add(membership));
    }
  }

  remove(membership: Membership): void {
    for (const entity of membership.entities) {
      const members = this.#members.get(entity);
      members?.delete(membership);
      if (members?.size === 0) this.#members.delete(entity);
    }
  }
}

export function* inAnyOrder(recipients: Recipients): Generator<Membership> {
  for (const members of recipients) yield* members;
}

/** Members that join meanwhile come last; members that leave may still come. */
export function* byProjection(recipients: () => Recipients, entity: Entity | undefined): Generator<Membership> {
  const served = new Set<Membership>();
  for (;;) {
    const groups = new Map<string, Membership[]>();
    for (const member of inAnyOrder(recipients())) {
      if (served.has(member)) continue;
      const key = entity === undefined ? '' : (member.group.projectionOf(entity)?.key ?? '');
      const group = groups.get(key);
      if (group === undefined) groups.set(key, [member]);
      else group.push(member);
    }
    if (groups.size === 0) return;
    for (const member of [...groups.values()].flat()) {
      served.add(member);
      yield member;
    }
  }
}
