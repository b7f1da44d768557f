// What a dry run would cause besides its response. Code in a dry run (dry-database.ts) finds this object on its queries. Nothing commits
// there. Effects that a rollback cannot undo are counted instead of performed. Statements that would block others and reveal nothing
// (new tables, indexes, rewritten values) are skipped.
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
  /** Events of records that the call does not name: deleted or cleared because they refer to one that it deletes. */
  referring: number;
  webhooks: number;
}

/** What a dry run would cause. If a part fails, its counts are undone. */
export class DryRun {
  readonly breaks: Break[] = [];
  readonly #rules = new Set<string>();
  #counts: Counts = { events: 0, referring: 0, webhooks: 0 };

  /** Notes a rule that acted on a change, or would run after it. */
  noteRule(name: string): void {
    this.#rules.add(name);
  }

  /** Counts events, and deliveries of webhooks. */
  count(events: number, webhooks: number): void {
    const counts = this.#counts;
    this.#counts = { ...counts, events: counts.events + events, webhooks: counts.webhooks + webhooks };
  }

  /** Notes how many of the counted events are of records that the call does not name. */
  noteReferring(events: number): void {
    this.#counts = { ...this.#counts, referring: this.#counts.referring + events };
  }

  /** Runs a part; if it fails, restores the counts. */
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
   * What the caller gets. Conditions of rules and webhooks, and references, read data that the caller may not see. A caller who may
   * not read everything therefore gets only the events of the records that it names.
   */
  report(callerReadsEverything: boolean) {
    const { events, referring, webhooks } = this.#counts;
    const { breaks } = this;
    if (!callerReadsEverything) return { rules: [], events: events - referring, webhooks: 0, breaks };
    return { rules: [...this.#rules], events, webhooks, breaks };
  }
}
