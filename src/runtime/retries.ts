// Retries work for as long as it fails, such as the cleanup of each tenant. The pause doubles with each failure of a key. The caller logs
// a failure when its cause differs from the previous one. Keys that are not tried any more are forgotten.
// Times are milliseconds of `performance.now()`.

interface Failed {
  cause: string;
  pauseMs: number;
  dueAt: number;
}

export class Retries {
  readonly #failed = new Map<string, Failed>();

  constructor(
    private readonly firstMs: number,
    private readonly longestMs: number,
  ) {}

  /** The keys that are due now; the others are due later. */
  due<T>(items: readonly T[], keyOf: (item: T) => string, now = performance.now()): T[] {
    const keys = new Set(items.map(keyOf));
    for (const key of [...this.#failed.keys()]) if (!keys.has(key)) this.#failed.delete(key);
    return items.filter((item) => now >= (this.#failed.get(keyOf(item))?.dueAt ?? now));
  }

  succeeded(key: string): void {
    this.#failed.delete(key);
  }

  /** Whether the cause differs from that of the last failure. */
  failed(key: string, error: unknown, now = performance.now()): boolean {
    const cause = causeOf(error);
    const before = this.#failed.get(key);
    const pauseMs = before === undefined ? this.firstMs : Math.min(this.longestMs, before.pauseMs * 2);
    this.#failed.set(key, { cause, pauseMs, dueAt: now + pauseMs });
    return before?.cause !== cause;
  }
}

function causeOf(error: unknown): string {
  return error instanceof Error ? `${error.name} ${error.message}` : String(error);
}
