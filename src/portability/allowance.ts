// Limits on what a document may contain besides its records. The number and the text of definitions are limited as for a tenant,
// with the limits of the API, and nothing may appear twice. definition-counts.ts counts rows; this file counts lines as they
// arrive.
// Failures: 400.
// Contract: portability#import, neighbours#byte-budgets.
import { invalidField } from '../errors.ts';
import { LIMITS } from '../limits.ts';
import { jsonBytes } from '../runtime/text.ts';

const MAX = {
  entities: LIMITS.entity.perTenantMax,
  subscriptions: LIMITS.webhook.subscriptionsMax,
  ...LIMITS.perTenant,
};

export class Allowance {
  readonly #counts = new Map<string, number>();
  readonly #bytes = new Map<string, number>();
  readonly #seen = new Set<string>();

  /** 400 if the tenant already has the maximum number. */
  one(kind: keyof typeof MAX): void {
    if (this.#count(kind) > MAX[kind]) throw invalidField('type', `a tenant has at most ${MAX[kind]} ${kind}`);
  }

  /** 400 if the roles or the views together exceed a tenant's limit. */
  text(kind: keyof typeof LIMITS.perTenantBytes, content: object): void {
    const max = LIMITS.perTenantBytes[kind];
    const bytes = (this.#bytes.get(kind) ?? 0) + jsonBytes(content);
    this.#bytes.set(kind, bytes);
    if (bytes > max) throw invalidField('type', `the ${kind} of a tenant take at most ${max} bytes`);
  }

  /** 400 if the entity already has the maximum number of rules. */
  rule(entity: string): void {
    const { perEntityMax } = LIMITS.rules;
    if (this.#count(`rules of ${entity}`) <= perEntityMax) return;
    throw invalidField('entity', `an entity has at most ${perEntityMax} rules`);
  }

  /** 400 if another line of this kind has the same value. */
  once(kind: string, member: string, value: string): void {
    const key = `${kind} ${member} ${value}`;
    if (this.#seen.has(key)) this.repeated(member);
    this.#seen.add(key);
  }

  repeated(member: string, more = ''): never {
    throw invalidField(member, `another line of this kind has the same${more === '' ? '' : `, ${more}`}`);
  }

  #count(key: string): number {
    const count = (this.#counts.get(key) ?? 0) + 1;
    this.#counts.set(key, count);
    return count;
  }
}
