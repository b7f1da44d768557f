// The ledger of a run: every change that was begun, when its success was heard of, and where and when it
// arrived; and, for each kind of fault, what became of the changes made meanwhile. Lost must be 0. Doubled is
// what a crash between a POST and the note of its outcome costs. Times are milliseconds since 1970.
// Contract: decisions#guarantees.

/** One attempt to change a record, told apart by a mark that it writes into the record. */
interface Change {
  kind: string;
  record: string | null;
  begunAt: number;
  acknowledgedAt: number | null;
  /** POSTs that brought it. */
  arrivals: number[];
}

/** A stream from `connected` to its end. */
export interface Visit {
  readonly since: number;
  readonly marks: Map<string, number>;
  doubled: number;
}

/** How long after a fault the first change begun after it was acknowledged, posted, and seen on both streams. */
export interface Recovery {
  write: number;
  webhook: number;
  sse: number;
  ws: number;
}

export interface Row {
  kind: string;
  faults: number;
  acknowledged: number;
  delivered: number;
  lost: number;
  doubled: number;
  recoveries: Recovery[];
  /** The longest time from the acknowledgement to the POST. */
  longestMs: number;
}

export type Stream = 'sse' | 'ws';

export class Ledger {
  /** What is being done to the service at present. */
  kind = 'nothing';
  readonly #changes = new Map<string, Change>();
  readonly #recoveries = new Map<string, Recovery[]>();
  readonly #visits: Record<Stream, Visit[]> = { sse: [], ws: [] };
  readonly #inOrder = new Map<string, number>();
  /** Changes of one record that came in another order than they were made. */
  disordered = 0;
  /** When a change came that was begun latest. */
  readonly #newest = { write: 0, webhook: 0, sse: 0, ws: 0 };

  begin(mark: string): void {
    const change = { kind: this.kind, record: null, begunAt: Date.now(), acknowledgedAt: null, arrivals: [] };
    this.#changes.set(mark, change);
  }

  acknowledge(mark: string): void {
    const change = this.#changes.get(mark);
    if (change === undefined) return;
    change.acknowledgedAt = Date.now();
    this.#see('write', change);
  }

  /** A POST brought the nth change of a record. */
  arrive(mark: string, record: string, n: number): void {
    const change = this.#changes.get(mark);
    if (change === undefined) throw new Error(`a change that nobody made: ${mark}`);
    if (change.arrivals.length === 0) {
      if (n < (this.#inOrder.get(record) ?? 0)) this.disordered++;
      this.#inOrder.set(record, n);
    }
    change.arrivals.push(Date.now());
    this.#see('webhook', change);
  }

  visit(stream: Stream): Visit {
    const visit = { since: Date.now(), marks: new Map<string, number>(), doubled: 0 };
    this.#visits[stream].push(visit);
    return visit;
  }

  show(stream: Stream, visit: Visit, mark: string): void {
    const change = this.#changes.get(mark);
    if (change === undefined) throw new Error(`a change that nobody made: ${mark}`);
    if (visit.marks.has(mark)) visit.doubled++;
    visit.marks.set(mark, change.begunAt);
    this.#see(stream, change);
  }

  /** When the last change came that was begun after `at`, as far as one has. */
  since(at: number): Partial<Recovery> {
    const seen = Object.entries(this.#newest).filter(([, begunAt]) => begunAt >= at);
    return Object.fromEntries(seen);
  }

  recovered(kind: string, recovery: Recovery): void {
    this.#recoveries.set(kind, [...(this.#recoveries.get(kind) ?? []), recovery]);
  }

  /** Changes acknowledged and not posted so far. */
  get owed(): number {
    let owed = 0;
    for (const { acknowledgedAt, arrivals } of this.#changes.values()) {
      if (acknowledgedAt !== null && arrivals.length === 0) owed++;
    }
    return owed;
  }

  rows(): Row[] {
    const byKind = Map.groupBy(this.#changes.values(), ({ kind }) => kind);
    return [...byKind].map(([kind, changes]) => {
      const acknowledged = changes.filter(({ acknowledgedAt }) => acknowledgedAt !== null);
      const delivered = changes.filter(({ arrivals }) => arrivals.length > 0);
      const delays = acknowledged.map(({ arrivals, acknowledgedAt }) => (arrivals[0] ?? 0) - (acknowledgedAt ?? 0));
      const recoveries = this.#recoveries.get(kind) ?? [];
      return {
        kind,
        faults: recoveries.length,
        acknowledged: acknowledged.length,
        delivered: delivered.length,
        lost: acknowledged.filter(({ arrivals }) => arrivals.length === 0).length,
        doubled: delivered.reduce((sum, { arrivals }) => sum + arrivals.length - 1, 0),
        recoveries,
        longestMs: Math.max(0, ...delays),
      };
    });
  }

  /**
   * What the visits of a stream left out: changes begun after it was connected and acknowledged before another was
   * begun that it did show.
   */
  stream(stream: Stream): { visits: number; shown: number; gaps: number; doubled: number } {
    const visits = this.#visits[stream];
    const shown = visits.reduce((sum, { marks }) => sum + marks.size, 0);
    const doubled = visits.reduce((sum, visit) => sum + visit.doubled, 0);
    return { visits: visits.length, shown, gaps: visits.reduce((sum, visit) => sum + this.#gapsIn(visit), 0), doubled };
  }

  #gapsIn({ since, marks }: Visit): number {
    let last = 0;
    for (const begunAt of marks.values()) last = Math.max(last, begunAt);
    let gaps = 0;
    for (const [mark, { begunAt, acknowledgedAt }] of this.#changes) {
      if (acknowledgedAt !== null && begunAt > since && acknowledgedAt < last && !marks.has(mark)) gaps++;
    }
    return gaps;
  }

  #see(where: keyof Recovery, { begunAt }: Change): void {
    this.#newest[where] = Math.max(this.#newest[where], begunAt);
  }
}
