// A tenant's stream as this process reads it: passes each event to the tenant's subscribers once and in order. Events that an
// entry only refers to are read from the outbox, a few at a time, once the subscribers have taken the events before them. Until
// then this stream reads no further entry, while other tenants' streams continue.
// Contract: decisions#events, neighbours#fair-shares.
import type { StreamEntry } from '../runtime/broker/broker.ts';
import type { PooledQueries } from '../runtime/postgres.ts';
import { forTenant } from '../runtime/work.ts';
import type { CommittedEvent } from './event.ts';
import { type EventReference, isReference, readReferences, type StreamedEvent } from './streamed-event.ts';

/** Receives one tenant's live events. */
export interface Subscriber {
  /** Called once for every event of the tenant, in order; `length` is the approximate length of its JSON. Must not throw. */
  event(event: CommittedEvent, length: number): void;
  /** Called after the subscriber was detached, when events may have been lost: close every stream of the tenant. */
  gap(): void;
  /** Resolves when the subscriber has passed on all its events. */
  drained(): Promise<void>;
}

const RECENT_MAX = 2_000;
/** Large events read at once: 4 MiB at most, since records have at most 1 MiB. */
const REFERENCES = 4;

export class TenantStream {
  readonly subscribers = new Set<Subscriber>();
  /** Ids of the last events passed on, because some events are relayed twice after a change of leader. */
  readonly #recent = new Set<string>();
  /** Large events, and the events that wait behind them. */
  #deferred: { event: StreamedEvent; length: number }[] = [];

  /** `onLost` is called when an event cannot be read, `onCaughtUp` when further entries may be read. */
  constructor(
    readonly tenantId: string,
    public lastId: string,
    private readonly db: PooledQueries,
    private readonly onLost: (cause?: unknown) => void,
    private readonly onCaughtUp: () => void,
  ) {}

  /** While this is true, no entry may be read and no event be passed on. */
  get isBusy(): boolean {
    return this.#deferred.length > 0;
  }

  /** Passes on the events of an entry. */
  receive({ fields }: StreamEntry): void {
    const text = fields.events ?? '[]';
    const events = JSON.parse(text) as StreamedEvent[];
    const length = text.length / Math.max(1, events.length);
    const wasBusy = this.isBusy;
    for (const event of events) {
      if (this.isBusy || isReference(event)) this.#deferred.push({ event, length });
      else this.handOut(event, length);
    }
    if (this.isBusy && !wasBusy) void forTenant(this.tenantId, () => this.#resolve());
  }

  handOut(event: CommittedEvent, length: number): void {
    if (this.#recent.has(event.id)) return;
    remember(this.#recent, event.id);
    for (const subscriber of [...this.subscribers]) subscriber.event(event, length);
  }

  close(): void {
    this.#deferred = [];
    for (const subscriber of this.subscribers) subscriber.gap();
  }

  async #resolve(): Promise<void> {
    try {
      while (this.#deferred.length > 0) {
        await Promise.all([...this.subscribers].map((subscriber) => subscriber.drained()));
        await this.#handOutDeferred(this.#deferred.slice(0, REFERENCES));
      }
      this.onCaughtUp();
    } catch (cause) {
      this.#deferred = [];
      this.onLost(cause);
    }
  }

  async #handOutDeferred(part: readonly { event: StreamedEvent; length: number }[]): Promise<void> {
    const references = part.map(({ event }) => event).filter((event): event is EventReference => isReference(event));
    const found = references.length === 0 ? new Map() : await readReferences(this.db, references);
    for (const { event, length } of part) {
      // The stream has been closed meanwhile.
      if (this.#deferred.shift() === undefined) return;
      if (!isReference(event)) this.handOut(event, length);
      else {
        const read = found.get(event.id);
        if (read === undefined) return this.onLost();
        // Of an erased record's changes, only the deletion is still shown.
        const isShown = read.event.erased === undefined || read.event.type === 'record.deleted';
        if (isShown) this.handOut(read.event, read.length);
      }
    }
  }
}

function remember(recent: Set<string>, id: string): void {
  recent.add(id);
  if (recent.size <= RECENT_MAX) return;
  for (const oldest of recent) {
    recent.delete(oldest);
    return;
  }
}
