// A bounded cache of loaded values, least recently used out first. An entry is dropped by `drop`
// when another process or this one announces a change; while announcements cannot be heard, an
// entry is believed for LIMITS.cacheStaleMs only, so a revoked right never outlives a second.
import { LIMITS } from '../limits.ts';

interface Entry<V> {
  value: V | undefined;
  loading: Promise<V> | undefined;
  at: number;
}

export class Cache<V> {
  readonly #entries = new Map<string, Entry<V>>();

  /** `heard` tells whether announcements of changes reach this process at present. */
  constructor(
    private readonly max: number,
    private readonly heard: () => boolean,
  ) {}

  /** The cached value, or what `load` gives. Failures and `undefined` are not kept. */
  get(key: string, load: () => Promise<V>): V | Promise<V> {
    const entry = this.#entries.get(key);
    if (entry !== undefined && this.#isFresh(entry)) {
      if (entry.value === undefined) return entry.loading as Promise<V>;
      this.#entries.delete(key);
      this.#entries.set(key, entry);
      return entry.value;
    }
    return this.#load(key, load);
  }

  /** The cached value, if it is there to be had at once. */
  peek(key: string): V | undefined {
    const entry = this.#entries.get(key);
    return entry !== undefined && this.#isFresh(entry) ? entry.value : undefined;
  }

  drop(key: string): void {
    this.#entries.delete(key);
  }

  clear(): void {
    this.#entries.clear();
  }

  #isFresh(entry: Entry<V>): boolean {
    return this.heard() || performance.now() - entry.at < LIMITS.cacheStaleMs;
  }

  /** Concurrent callers share one load; a value whose entry was dropped meanwhile is handed out but not kept. */
  #load(key: string, load: () => Promise<V>): Promise<V> {
    const entry: Entry<V> = { value: undefined, loading: undefined, at: performance.now() };
    const forget = (): void => {
      if (this.#entries.get(key) === entry) this.#entries.delete(key);
    };
    entry.loading = load().then(
      (value) => {
        if (value === undefined) forget();
        entry.value = value;
        entry.loading = undefined;
        return value;
      },
      (cause: unknown) => {
        forget();
        throw cause;
      },
    );
    this.#entries.set(key, entry);
    this.#evict();
    return entry.loading;
  }

  #evict(): void {
    while (this.#entries.size > this.max) {
      const oldest = this.#entries.keys().next().value;
      if (oldest === undefined) return;
      this.#entries.delete(oldest);
    }
  }
}
