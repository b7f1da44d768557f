// A bounded LRU cache of loaded values. `drop` invalidates an entry when a change is published; while
// invalidations cannot arrive, entries expire after LIMITS.cacheStaleMs, so a revoked right is refused within
// a second. Concurrent loads of a key are shared.
import { LIMITS } from '../limits.ts';
import { withoutSignal } from './work.ts';

interface Entry<V> {
  value: V | undefined;
  loading: Promise<V> | undefined;
  at: number;
}

export class Cache<V> {
  readonly #entries = new Map<string, Entry<V>>();

  /** `isConnected`: whether invalidations currently reach this process. */
  constructor(
    private readonly max: number,
    private readonly isConnected: () => boolean,
  ) {}

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
    this.#entries.delete(key);
  }

  clear(): void {
    this.#entries.clear();
  }

  #isFresh(entry: Entry<V>): boolean {
    return this.isConnected() || performance.now() - entry.at < LIMITS.cacheStaleMs;
  }

  /** A value whose entry was dropped during the load is returned but not cached. */
  #load(key: string, load: () => Promise<V>): Promise<V> {
    const entry: Entry<V> = { value: undefined, loading: undefined, at: performance.now() };
    const remove = (): void => {
      if (this.#entries.get(key) === entry) this.#entries.delete(key);
    };
    entry.loading = withoutSignal(load).then(
      (value) => {
        if (value === undefined) remove();
        entry.value = value;
        entry.loading = undefined;
        return value;
      },
      (cause: unknown) => {
        remove();
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
