// Events of the tenant as they are committed: an event stream opened with a ticket, because a page cannot send its
// credential with one. A stream that ends is opened again with a new ticket; nothing is replayed, so whoever follows
// reads again after `onOpen`. Without tickets (a role or a service that has none) it says so and stays quiet.
import { post, seenAs } from './call.ts';
import { ApiError, isAborted } from './errors.ts';

export type LiveState = 'connecting' | 'live' | 'retrying' | 'paused' | 'unavailable';

export interface Change {
  type: 'created' | 'updated' | 'deleted';
  entity: string;
  id: string;
}

/** What a stream is opened for; without entities, those of all. */
export interface Wanted {
  entities?: readonly string[];
  events: readonly string[];
}

interface Follower {
  /** An event of the stream, with its data as JSON text. */
  onEvent: (type: string, data: string) => void;
  /** The stream is open; `isAgain` after a gap, in which changes may have been missed. */
  onOpen: (isAgain: boolean) => void;
  onState: (state: LiveState, retryAt: number | null) => void;
}

const FIRST_WAIT_MS = 1_000;
const LONGEST_WAIT_MS = 30_000;
/** The stream has a heartbeat every 5 seconds. */
const SILENCE_MS = 15_000;
const HIDDEN_MS = 5 * 60_000;
/** Refusals that another try would only repeat. */
const NEVER = [400, 403, 404, 405];

export class Events {
  #source: EventSource | null = null;
  #asking: AbortController | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #silence: ReturnType<typeof setTimeout> | undefined;
  #hidden: ReturnType<typeof setTimeout> | undefined;
  #tries = 0;
  #opened = 0;
  #isStopped = true;

  constructor(
    private readonly tenant: string,
    private readonly wanted: Wanted,
    private readonly follower: Follower,
  ) {}

  start(): void {
    this.#isStopped = false;
    document.addEventListener('visibilitychange', this.#onVisibility);
    void this.#open();
  }

  stop(): void {
    this.#isStopped = true;
    document.removeEventListener('visibilitychange', this.#onVisibility);
    clearTimeout(this.#hidden);
    this.#close();
  }

  /** Tries at once instead of waiting. */
  retry(): void {
    this.#close();
    void this.#open();
  }

  async #open(): Promise<void> {
    // Asking for a ticket is a POST, which is refused while the tenant is seen as another role. A page that is left is
    // rendered once more, without its tenant.
    if (seenAs.get() !== null || this.tenant === '') return this.follower.onState('paused', null);
    this.follower.onState('connecting', null);
    const asking = new AbortController();
    this.#asking = asking;
    const base = `/api/v1/tenants/${encodeURIComponent(this.tenant)}/events`;
    try {
      const { tenant, wanted } = this;
      const { ticket } = await post<{ ticket: string }>(`${base}/tickets`, wanted, { tenant, signal: asking.signal });
      if (this.#asking === asking) this.#listen(`${base}/stream?ticket=${encodeURIComponent(ticket)}`);
    } catch (cause) {
      if (isAborted(cause) || this.#asking !== asking) return;
      if (cause instanceof ApiError && NEVER.includes(cause.status)) this.follower.onState('unavailable', null);
      else this.#again();
    }
  }

  #listen(url: string): void {
    const source = new EventSource(url);
    this.#source = source;
    const isCurrent = (): boolean => this.#source === source;
    source.addEventListener('connected', () => {
      if (!isCurrent()) return;
      this.#tries = 0;
      this.#opened += 1;
      this.follower.onState('live', null);
      this.follower.onOpen(this.#opened > 1);
    });
    source.addEventListener('heartbeat', () => this.#heard());
    for (const type of this.wanted.events) {
      source.addEventListener(type, ({ data }: MessageEvent<string>) => {
        this.#heard();
        if (isCurrent()) this.follower.onEvent(type, data);
      });
    }
    // Both the end of the connection and the service's own `error` event; a used ticket opens no second stream.
    source.addEventListener('error', () => isCurrent() && this.#again());
    this.#heard();
  }

  #heard(): void {
    clearTimeout(this.#silence);
    this.#silence = setTimeout(() => this.#again(), SILENCE_MS);
  }

  #again(): void {
    this.#close();
    if (this.#isStopped) return;
    const wait = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** this.#tries) * (0.5 + Math.random() / 2);
    this.#tries += 1;
    this.follower.onState('retrying', Date.now() + wait);
    this.#timer = setTimeout(() => void this.#open(), wait);
  }

  #close(): void {
    clearTimeout(this.#timer);
    clearTimeout(this.#silence);
    this.#asking?.abort();
    this.#asking = null;
    this.#source?.close();
    this.#source = null;
  }

  /** A page in the background keeps its stream for five minutes. */
  readonly #onVisibility = (): void => {
    clearTimeout(this.#hidden);
    if (document.hidden) {
      this.#hidden = setTimeout(() => {
        this.#close();
        this.follower.onState('paused', null);
      }, HIDDEN_MS);
    } else if (this.#source === null && this.#asking === null) this.retry();
  };
}
