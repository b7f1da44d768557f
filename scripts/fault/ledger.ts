// The ledger of a run: every attempted change, when it was acknowledged, and when each channel delivered it; and, for
// each kind of fault, the outcome of the changes made during it. Lost must be 0. A duplicate is a POST repeated after a
// crash that prevented its outcome from being stored. Times are milliseconds since 1970.
// Contract: decisions#guarantees.

/** One attempt to change a record, identified by a mark that it writes into the record. */
interface Change {
  kind: string;
  record: string | null;
  attemptedAt: number;
  acknowledgedAt: number | null;
  /** One time for each webhook request that carried it. */
  deliveredAt: number[];
}

/** One connection of a stream, from `connected` to its end; `marks` are the changes that it received. */
export interface Connection {
  readonly since: number;
  readonly marks: Map<string, number>;
  duplicated: number;
}

/** Time from a fault until a change attempted after it is acknowledged, posted, and received on each stream. */
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
  duplicated: number;
  recoveries: Recovery[];
  /** The longest time from the acknowledgement to the POST. */
  longestMs: number;
}

export type Stream = 'sse' | 'ws';

export class Ledger {
  /** The fault being injected. */
  kind = 'nothing';
  readonly #changes = new Map<string, Change>();
  readonly #recoveries = new Map<string, Recovery[]>();
  readonly #connections: Record<Stream, Connection[]> = { sse: [], ws: [] };
  /** The number of the last change delivered, by record. */
  readonly #lastDelivered = new Map<string, number>();
  /** Changes of one record that were delivered out of order. */
  outOfOrder = 0;
  /** For each channel, the latest time at which a change that it has seen was attempted. */
  readonly #newest = { write: 0, webhook: 0, sse: 0, ws: 0 };

  attempted(mark: string): void {
    const change = { kind: this.kind, record: null, attemptedAt: Date.now(), acknowledgedAt: null, deliveredAt: [] };
    this.#changes.set(mark, change);
  }

  acknowledged(mark: string): void {
    const change = this.#changes.get(mark);
    if (change === undefined) return;
    change.acknowledgedAt = Date.now();
    this.#observe('write', change);
  }

  /** A webhook request carried the nth change of a record. */
  delivered(mark: string, record: string, n: number): void {
    const change = this.#changes.get(mark);
    if (change === undefined) throw new Error(`unknown change: ${mark}`);
    if (change.deliveredAt.length === 0) {
      if (n < (this.#lastDelivered.get(record) ?? 0)) this.outOfOrder++;
      this.#lastDelivered.set(record, n);
    }
    change.deliveredAt.push(Date.now());
    this.#observe('webhook', change);
  }

  connected(stream: Stream): Connection {
    const connection = { since: Date.now(), marks: new Map<string, number>(), duplicated: 0 };
    this.#connections[stream].push(connection);
    return connection;
  }

  received(stream: Stream, connection: Connection, mark: string): void {
    const change = this.#changes.get(mark);
    if (change === undefined) throw new Error(`unknown change: ${mark}`);
    if (connection.marks.has(mark)) connection.duplicated++;
    connection.marks.set(mark, change.attemptedAt);
    this.#observe(stream, change);
  }

  /** The channels that have seen a change attempted after `at`. */
  since(at: number): Partial<Recovery> {
    const seen = Object.entries(this.#newest).filter(([, attemptedAt]) => attemptedAt >= at);
    return Object.fromEntries(seen);
  }

  recovered(kind: string, recovery: Recovery): void {
    this.#recoveries.set(kind, [...(this.#recoveries.get(kind) ?? []), recovery]);
  }

  /** Acknowledged changes that no webhook request has carried yet. */
  get outstanding(): number {
    let count = 0;
    for (const { acknowledgedAt, deliveredAt } of this.#changes.values()) {
      if (acknowledgedAt !== null && deliveredAt.length === 0) count++;
    }
    return count;
  }

  rows(): Row[] {
    const byKind = Map.groupBy(this.#changes.values(), ({ kind }) => kind);
    return [...byKind].map(([kind, changes]) => {
      const acknowledged = changes.filter(({ acknowledgedAt }) => acknowledgedAt !== null);
      const delivered = changes.filter(({ deliveredAt }) => deliveredAt.length > 0);
      const delays = acknowledged.map(
        ({ deliveredAt, acknowledgedAt }) => (deliveredAt[0] ?? 0) - (acknowledgedAt ?? 0),
      );
      const recoveries = this.#recoveries.get(kind) ?? [];
      return {
        kind,
        faults: recoveries.length,
        acknowledged: acknowledged.length,
        delivered: delivered.length,
        lost: acknowledged.filter(({ deliveredAt }) => deliveredAt.length === 0).length,
        duplicated: delivered.reduce((sum, { deliveredAt }) => sum + deliveredAt.length - 1, 0),
        recoveries,
        longestMs: Math.max(0, ...delays),
      };
    });
  }

  /**
   * What the connections of a stream received. A gap is a change attempted after the connection opened, and acknowledged
   * before the attempt of another change that the connection did receive.
   */
  stream(stream: Stream): { connections: number; received: number; gaps: number; duplicated: number } {
    const connections = this.#connections[stream];
    const received = connections.reduce((sum, { marks }) => sum + marks.size, 0);
    const duplicated = connections.reduce((sum, connection) => sum + connection.duplicated, 0);
    return {
      connections: connections.length,
      received,
      gaps: connections.reduce((sum, connection) => sum + this.#gapsIn(connection), 0),
      duplicated,
    };
  }

  #gapsIn({ since, marks }: Connection): number {
    let last = 0;
    for (const attemptedAt of marks.values()) last = Math.max(last, attemptedAt);
    let gaps = 0;
    for (const [mark, { attemptedAt, acknowledgedAt }] of this.#changes) {
      if (acknowledgedAt !== null && attemptedAt > since && acknowledgedAt < last && !marks.has(mark)) gaps++;
    }
    return gaps;
  }

  #observe(where: keyof Recovery, { attemptedAt }: Change): void {
    this.#newest[where] = Math.max(this.#newest[where], attemptedAt);
  }
}
