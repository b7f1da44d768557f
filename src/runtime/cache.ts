// An LRU cache of loaded values, bounded by their number and, if they vary in size, by their bytes. When a change is published, `drop`
// invalidates an entry, and `renew` replaces it without making anybody wait. While invalidations cannot arrive, entries expire after
// LIMITS.cacheStaleMs, so a revoked right is refused within a second. Concurrent loads of a key are shared.
import { LIMITS } from '../limits.ts';
import { withoutSignal } from './work.ts';

interface Entry<V> {
  value: V | undefined;
  loading: Promise<V> | undefined;
  at: number;
  bytes: number;
  /** Whether the value was requested after it was loaded. */
  isUsed: boolean;
  /** How often the value has changed since it was loaded, and the load that replaces it. */
  changes: number;
  renewal: Promise<void> | undefined;
}

/** The size of a value, and the most bytes of all values together. The value used last is kept, however large it is. */
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
      entry.isUsed = true;
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

  /**
   * Loads a value again, and resolves when it is there. Meanwhile callers get the previous value, for at most LIMITS.cacheStaleMs. A
   * value that nobody has used since it was loaded is dropped instead. If the load fails, the value is dropped, and the next call
   * gets the error.
   */
  async renew(key: string, load: () => Promise<V>): Promise<void> {
    const entry = this.#entries.get(key);
    if (entry?.value === undefined || !entry.isUsed || !this.#isFresh(entry)) return this.drop(key);
    entry.changes++;
    if (entry.renewal === undefined) {
      entry.at = performance.now();
      entry.renewal = this.#renew(key, entry, load);
    }
    await entry.renewal;
  }

  async #renew(key: string, entry: Entry<V>, load: () => Promise<V>): Promise<void> {
    const isCurrent = (): boolean => this.#entries.get(key) === entry;
    let value: V | undefined;
    // A change during a load may be missing from the loaded value.
    for (let changes = 0; changes !== entry.changes && isCurrent(); ) {
      changes = entry.changes;
      value = await withoutSignal(load).catch(() => undefined);
    }
    if (!isCurrent()) return;
    this.drop(key);
    if (value === undefined) return;
    const renewed = { ...newEntry<V>(), value };
    this.#entries.set(key, renewed);
    this.#weigh(key, renewed, value);
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
    const isCurrent = this.isConnected() && entry.renewal === undefined;
    return isCurrent || performance.now() - entry.at < LIMITS.cacheStaleMs;
  }

  /** A value whose entry was dropped during the load is returned but not cached. */
  #load(key: string, load: () => Promise<V>): Promise<V> {
    const entry = newEntry<V>();
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

const newEntry = <V>(): Entry<V> => ({
  value: undefined,
  loading: undefined,
  at: performance.now(),
  bytes: 0,
  isUsed: false,
  changes: 0,
  renewal: undefined,
});
