// Whose run a worker's loop executes next: of the tenants with due runs, the one whose runs have taken the least time in
// this process. A tenant holds at most half of the loops while another waits, and never all of them: a run cannot be
// interrupted, so the last loop stays free for the tenant that comes next. Times are milliseconds.
// Contract: neighbours#fair-shares.

interface Use {
  /** The time of the runs that have ended. A tenant that was idle starts with the least of the others. */
  usedMs: number;
  /** The runs in progress, by their start. */
  running: Set<{ startedAt: number }>;
}

export class TenantTurns {
  readonly #uses = new Map<string, Use>();
  readonly #waiting = new Set<string>();

  /** `loops` is the number of runs at once. */
  constructor(private readonly loops: number) {}

  /** The tenant may have due runs. */
  add(tenantId: string): void {
    if (this.#waiting.has(tenantId)) return;
    const least = this.#leastUsed();
    const use = this.#uses.get(tenantId);
    if (use === undefined) this.#uses.set(tenantId, { usedMs: least, running: new Set() });
    else if (use.running.size === 0) use.usedMs = Math.max(use.usedMs, least);
    this.#waiting.add(tenantId);
  }

  /** The tenant has no run that can be claimed now. */
  remove(tenantId: string): void {
    this.#waiting.delete(tenantId);
    if (this.#waiting.size > 0) return;
    for (const [id, { running }] of this.#uses) if (running.size === 0) this.#uses.delete(id);
  }

  /** Begins a turn of the next tenant; undefined when none may have one. `end` must be called once. */
  begin(): { tenantId: string; end: () => void } | undefined {
    const now = performance.now();
    let next: { tenantId: string; use: Use; usedMs: number } | undefined;
    for (const tenantId of this.#waiting) {
      const use = this.#uses.get(tenantId) as Use;
      if (use.running.size >= this.#most()) continue;
      const usedMs = totalOf(use, now);
      if (next === undefined || usedMs < next.usedMs) next = { tenantId, use, usedMs };
    }
    if (next === undefined) return undefined;
    const { tenantId, use } = next;
    const run = { startedAt: now };
    use.running.add(run);
    const end = (): void => {
      use.running.delete(run);
      use.usedMs += performance.now() - now;
    };
    return { tenantId, end };
  }

  #most(): number {
    const share = this.#waiting.size > 1 ? this.loops / 2 : this.loops - 1;
    return Math.max(1, Math.floor(share));
  }

  #leastUsed(): number {
    const now = performance.now();
    const active = [...this.#uses].filter(([id, { running }]) => running.size > 0 || this.#waiting.has(id));
    return active.length === 0 ? 0 : Math.min(...active.map(([, use]) => totalOf(use, now)));
  }
}

function totalOf({ usedMs, running }: Use, now: number): number {
  let total = usedMs;
  for (const { startedAt } of running) total += now - startedAt;
  return total;
}
