// What a dry run would have caused besides its answer. Whatever runs in it (dry-database.ts) finds it at its queries: nothing
// commits there, so effects that no rollback undoes are counted instead, and statements that would hold up others without
// telling anything (new tables, indexes, rewritten values) are left out.
// Contract: trying#dry-runs.

/** What a change of definitions breaks. `count` is the number of records that lose values. */
export interface Break {
  kind: 'view' | 'role' | 'rule' | 'record';
  name: string;
  text: string;
  count?: number;
}

interface Counts {
  events: number;
  webhooks: number;
}

/** What a dry run would have caused. What a failed part of it has counted is undone with it. */
export class DryRun {
  readonly breaks: Break[] = [];
  readonly #rules = new Set<string>();
  #counts: Counts = { events: 0, webhooks: 0 };

  /** Notes a rule that has acted on a change, or would run after it. */
  noteRule(name: string): void {
    this.#rules.add(name);
  }

  /** Counts events, and deliveries of webhooks. */
  count(events: number, webhooks: number): void {
    this.#counts = { events: this.#counts.events + events, webhooks: this.#counts.webhooks + webhooks };
  }

  /** Runs a part; if it fails, its counts are as before. */
  async part<T>(run: () => Promise<T>): Promise<T> {
    const before = this.#counts;
    try {
      return await run();
    } catch (error) {
      this.#counts = before;
      throw error;
    }
  }

  report() {
    return { rules: [...this.#rules], ...this.#counts, breaks: this.breaks };
  }
}
