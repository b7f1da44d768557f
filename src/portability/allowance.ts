// What a document may hold beside its records: no more of a kind, and no more text, than a tenant may have, and nothing twice.
// The limits are those of the API (definition-counts.ts), which counts rows; here the lines are counted as they come.
// Failures: 400. Contract: portability#import, neighbours#byte-budgets.
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

  /** 400 when there are as many already as a tenant may have. */
  one(kind: keyof typeof MAX): void {
    if (this.#count(kind) > MAX[kind]) throw invalidField('type', `a tenant has at most ${MAX[kind]} ${kind}`);
  }

  /** 400 when the roles or views take more together than a tenant's may. */
  text(kind: keyof typeof LIMITS.perTenantBytes, content: object): void {
    const max = LIMITS.perTenantBytes[kind];
    const bytes = (this.#bytes.get(kind) ?? 0) + jsonBytes(content);
    this.#bytes.set(kind, bytes);
    if (bytes > max) throw invalidField('type', `the ${kind} of a tenant take at most ${max} bytes`);
  }

  /** 400 when the entity has as many rules already as it may have. */
  rule(entity: string): void {
    const { perEntityMax } = LIMITS.rules;
    if (this.#count(`rules of ${entity}`) <= perEntityMax) return;
    throw invalidField('entity', `an entity has at most ${perEntityMax} rules`);
  }

  /** 400 when another line of this kind has the same. */
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
