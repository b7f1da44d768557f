// The tenant's event stream in a page: opened by a ticket, which works once, so that every connection begins with a new
// one. A connection that ends, or says nothing for three heartbeats, is replaced after a wait that doubles up to 30 s.
// The last 5,000 events are kept, whether or not they are shown.
import { post } from '../../api/call.ts';
import { ApiError, isAborted } from '../../api/errors.ts';
import { Store } from '../../api/store.ts';

export const EVENT_TYPES = [
  'record.created',
  'record.updated',
  'record.deleted',
  'rule.executed',
  'rule.failed',
  'message.chain_limit',
  'quota.warning',
  'webhook.disabled',
] as const;
export const KEPT = 5_000;
/** Of all events that are kept together, so that large records do not fill the memory. Characters. */
const KEPT_LENGTH = 16_000_000;
const LONGEST_TITLE = 200;
const FIRST_WAIT_MS = 1_000;
const LONGEST_WAIT_MS = 30_000;
const SILENT_MS = 15_000;
/** A page is drawn at most so often, however fast events come. */
const DRAW_MS = 100;

export interface LiveEvent {
  /** Counts from 1 as events come. */
  at: number;
  id: string;
  type: string;
  timestamp: string;
  entity: string | null;
  record: string | null;
  /** What it is about: the record's title, or what a rule says. */
  title: string;
  /** The event as it came. */
  text: string;
}

export type Connection =
  | { state: 'connecting' }
  | { state: 'connected' }
  | { state: 'lost'; retryAt: number }
  | { state: 'refused'; error: unknown };

export class LiveStream {
  readonly connection = new Store<Connection>({ state: 'connecting' });
  /** Oldest first; replaced when events came. */
  readonly events = new Store<readonly LiveEvent[]>([]);
  #fresh: LiveEvent[] = [];
  #count = 0;
  #source: EventSource | null = null;
  #abort: AbortController | null = null;
  #wait = FIRST_WAIT_MS;
  #retry: ReturnType<typeof setTimeout> | undefined;
  #silence: ReturnType<typeof setTimeout> | undefined;
  #draw: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly tenant: string) {}

  async open(): Promise<void> {
    this.#end();
    const abort = new AbortController();
    this.#abort = abort;
    this.connection.set({ state: 'connecting' });
    const path = `/api/v1/tenants/${encodeURIComponent(this.tenant)}/events`;
    try {
      const { tenant, signal } = { tenant: this.tenant, signal: abort.signal };
      const { ticket } = await post<{ ticket: string }>(`${path}/tickets`, {}, { tenant, signal });
      if (!abort.signal.aborted) this.#listen(`${path}/stream?ticket=${encodeURIComponent(ticket)}`);
    } catch (cause) {
      if (isAborted(cause)) return;
      if (isFinal(cause)) this.connection.set({ state: 'refused', error: cause });
      else this.#lose(cause instanceof ApiError ? (cause.retryAfterMs ?? 0) : 0);
    }
  }

  close(): void {
    this.#end();
    clearTimeout(this.#draw);
    this.#draw = undefined;
  }

  #listen(url: string): void {
    const source = new EventSource(url);
    this.#source = source;
    const heard = (): void => {
      clearTimeout(this.#silence);
      this.#silence = setTimeout(() => this.#lose(0), SILENT_MS);
    };
    heard();
    source.addEventListener('connected', () => {
      this.#wait = FIRST_WAIT_MS;
      this.connection.set({ state: 'connected' });
      heard();
    });
    source.addEventListener('heartbeat', heard);
    for (const type of EVENT_TYPES) {
      source.addEventListener(type, ({ data }: MessageEvent<string>) => {
        heard();
        this.#take(type, data);
      });
    }
    // Both the end of the connection and an `error` event of the service, which ends it: the ticket is spent.
    source.addEventListener('error', () => this.#lose(0));
  }

  #take(type: string, text: string): void {
    const body = JSON.parse(text) as Record<string, unknown>;
    // Events of rules name entity and record among their data.
    const { entity, record_id: record } = { ...(body.data as object | undefined), ...body } as Record<string, unknown>;
    this.#count += 1;
    this.#fresh.push({
      at: this.#count,
      id: String(body.id ?? this.#count),
      type,
      timestamp: String(body.timestamp ?? new Date().toISOString()),
      entity: typeof entity === 'string' ? entity : null,
      record: typeof record === 'string' ? record : null,
      title: titleIn(body),
      text,
    });
    if (this.#fresh.length > KEPT) this.#fresh = newest(this.#fresh);
    this.#draw ??= setTimeout(() => {
      this.#draw = undefined;
      this.events.set(newest([...this.events.get(), ...this.#fresh]));
      this.#fresh = [];
    }, DRAW_MS);
  }

  #lose(atLeastMs: number): void {
    this.#end();
    // Not all pages at once after a restart.
    const wait = Math.max(atLeastMs, this.#wait * (0.5 + Math.random() / 2));
    this.#wait = Math.min(LONGEST_WAIT_MS, this.#wait * 2);
    this.connection.set({ state: 'lost', retryAt: Date.now() + wait });
    this.#retry = setTimeout(() => void this.open(), wait);
  }

  #end(): void {
    clearTimeout(this.#retry);
    clearTimeout(this.#silence);
    this.#abort?.abort();
    this.#source?.close();
    this.#source = null;
  }
}

/** A refusal that another try does not change. */
function isFinal(cause: unknown): boolean {
  return cause instanceof ApiError && cause.status < 500 && cause.status !== 429;
}

/** The last events, as many as are kept; the last one in any case. */
function newest(events: readonly LiveEvent[]): LiveEvent[] {
  let from = events.length;
  let length = 0;
  while (from > 0 && events.length - from < KEPT) {
    length += events[from - 1]?.text.length ?? 0;
    if (length > KEPT_LENGTH && from < events.length) break;
    from -= 1;
  }
  return events.slice(from);
}

function titleIn(body: Record<string, unknown>): string {
  const data = (body.data ?? {}) as { fields?: Record<string, unknown>; rule_name?: string; error?: string };
  const { title, label, subject, email } = data.fields ?? {};
  const rule = data.rule_name === undefined ? undefined : [data.rule_name, data.error].filter(Boolean).join(': ');
  for (const value of [title, label, subject, email, rule, body.subject, body.error, body.quota]) {
    if (typeof value === 'string' && value.trim() !== '') return value.slice(0, LONGEST_TITLE);
  }
  return typeof body.record_id === 'string' ? body.record_id.slice(0, 8) : '';
}
