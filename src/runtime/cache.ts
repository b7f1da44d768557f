// An LRU cache of loaded values, bounded by their number and, if they vary in size, by their bytes. `drop` invalidates an entry when a change is published; while
// invalidations cannot arrive, entries expire after LIMITS.cacheStaleMs, so a revoked right is refused within
// a second. Concurrent loads of a key are shared.
import { LIMITS } from '../limits.ts';
import { withoutSignal } from './work.ts';

interface Entry<V> {
  value: V | undefined;
  loading: Promise<V> | undefined;
  at: number;
  bytes: number;
}

/** How large the values of a cache are, and may be together. The one used last is kept, however large it is. */
export interface CachedBytes<V> {
  max: number;
  of(value: V): number;
}

export class Cache<V> {
  readonly #entries = new Map<string, Entry<V>>();
  #bytes = 0;

  /** `isConnected`: whether invalidations currently reach this process. */
  constructor(
    private readonly max: number,
    private readonly isConnected: () => boolean,
    private readonly sizes?: CachedBytes<V>,
  ) {}

  /** Entries, loaded or being loaded, and the bytes of their values. */
  get size(): { entries: number; bytes: number } {
    return { entries: this.#entries.size, bytes: this.#bytes };
  }

  /** The cached or loaded value. Failures and `undefined` are not cached. */
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

  /** The cached value, without loading it. */
  peek(key: string): V | undefined {
    const entry = this.#entries.get(key);
    return entry !== undefined && this.#isFresh(entry) ? entry.value : undefined;
  }

  drop(key: string): void {
    this.#bytes -= this.#entries.get(key)?.bytes ?? 0;
    this.#entries.delete(key);
  }

  clear(): void {
    this.#entries.clear();
    this.#bytes = 0;
  }

  #isFresh(entry: Entry<V>): boolean {
    return this.isConnected() || performance.now() - entry.at < LIMITS.cacheStaleMs;
  }

  /** A value whose entry was dropped during the load is returned but not cached. */
  #load(key: string, load: () => Promise<V>): Promise<V> {
    const entry: Entry<V> = { value: undefined, loading: undefined, at: performance.now(), bytes: 0 };
    const remove = (): void => {
      if (this.#entries.get(key) === entry) this.drop(key);
    };
    entry.loading = withoutSignal(load).then(
      (value) => {
        if (value === undefined) remove();
        entry.value = value;
        entry.loading = undefined;
        this.#weigh(key, entry, value);
        return value;
      },
      (cause: unknown) => {
        remove();
        throw cause;
      },
    );
    this.drop(key);
    this.#entries.set(key, entry);
    this.#evict();
    return entry.loading;
  }

  /** Counts a loaded value, unless it was dropped meanwhile. */
  #weigh(key: string, entry: Entry<V>, value: V): void {
    if (this.sizes === undefined || this.#entries.get(key) !== entry) return;
    entry.bytes = this.sizes.of(value);
    this.#bytes += entry.bytes;
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    this.#evict();
  }

  #evict(): void {
    const bytesMax = this.sizes?.max ?? Number.POSITIVE_INFINITY;
    while (this.#entries.size > this.max || (this.#bytes > bytesMax && this.#entries.size > 1)) {
      const [oldest] = this.#entries.keys();
      if (oldest === undefined) return;
      this.drop(oldest);
    }
  }
}
