// What the server process of a connection keeps in memory: prepared statements, and the catalogs of the tenants that it has served. A
// server process frees neither, so a connection whose process keeps much must be replaced: at about 110 MiB of catalogs, not
// counting the plans.

const STATEMENTS_MAX = 2_000;
/** Characters of prepared statements. A statement of many terms takes thirty times the memory of its text: 100 KB. */
const TEXT_MAX = 1_500_000;
const TENANTS_MAX = 250;
/**
 * Prepared statements of a connection to the embedded database, whose connections share one session. A schema change checks all of
 * them: with 1,900 statements, creating a tenant takes 166 ms of CPU, and with 370 it takes 61.
 */
const SHARED_STATEMENTS_MAX = 40;

export class ServerCache {
  readonly #statementsMax: number;
  readonly #statements = new Set<string>();
  #characters = 0;
  readonly #tenants = new Set<string>();

  constructor({ hasProcess }: { hasProcess: boolean }) {
    this.#statementsMax = hasProcess ? STATEMENTS_MAX : SHARED_STATEMENTS_MAX;
  }

  get isFull(): boolean {
    const hasManyStatements = this.#statements.size >= this.#statementsMax || this.#characters >= TEXT_MAX;
    return hasManyStatements || this.#tenants.size >= TENANTS_MAX;
  }

  /** Notes a statement that the server has prepared. */
  addStatement(text: string): void {
    this.#statements.add(text);
    this.#characters += text.length;
  }

  hasStatement(text: string): boolean {
    return this.#statements.has(text);
  }

  /** Notes the tenant that the connection is lent for; null is no tenant. */
  addTenant(tenantId: string | null): void {
    if (tenantId !== null) this.#tenants.add(tenantId);
  }

  hasTenant(tenantId: string | null): boolean {
    return tenantId !== null && this.#tenants.has(tenantId);
  }

  /** How many tenants it has served. */
  get tenants(): number {
    return this.#tenants.size;
  }
}
