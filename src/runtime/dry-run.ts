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
  /** Those of records that the call does not name: deleted or cleared because they refer to one that it deletes. */
  referring: number;
  webhooks: number;
}

/** What a dry run would have caused. What a failed part of it has counted is undone with it. */
export class DryRun {
  readonly breaks: Break[] = [];
  readonly #rules = new Set<string>();
  #counts: Counts = { events: 0, referring: 0, webhooks: 0 };

  /** Notes a rule that has acted on a change, or would run after it. */
  noteRule(name: string): void {
    this.#rules.add(name);
  }

  /** Counts events, and deliveries of webhooks. */
  count(events: number, webhooks: number): void {
    const counts = this.#counts;
    this.#counts = { ...counts, events: counts.events + events, webhooks: counts.webhooks + webhooks };
  }

  /** Of the events that have been counted, so many are of records that the call does not name. */
  noteReferring(events: number): void {
    this.#counts = { ...this.#counts, referring: this.#counts.referring + events };
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

  /**
   * What is told of it. Conditions of rules and webhooks, and references, read what a caller may not see: unless it reads
   * everything, it is told of the events of the records that it names alone.
   */
  report(callerReadsEverything: boolean) {
    const { events, referring, webhooks } = this.#counts;
    const { breaks } = this;
    if (!callerReadsEverything) return { rules: [], events: events - referring, webhooks: 0, breaks };
    return { rules: [...this.#rules], events, webhooks, breaks };
  }
}
