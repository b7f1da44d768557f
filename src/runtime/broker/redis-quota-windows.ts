// Quota windows in Redis: one script per call, whose reply, a flat list of numbers, is parsed here. How many
// hits form one call and what happens to prefetched ones is decided in quota-windows.ts.
// Times are milliseconds. Fails like any command.
import type { QuotaWindow } from './broker.ts';
import { type CountResult, PREFETCH_KNOWN_MS, type QuotaStore } from './quota-windows.ts';
import { COUNT_ALL, RETURN_HITS } from './scripts.ts';

/** Runs a script in Redis; the broker adds its prefix to the keys. */
type Run = (script: string, keys: readonly string[], values: readonly number[]) => Promise<unknown>;

export class RedisQuotaStore implements QuotaStore {
  constructor(private readonly run: Run) {}

  async count(windows: readonly QuotaWindow[], hits: number, wanted: number): Promise<CountResult> {
    const keys = windows.map(({ key }) => key);
    const values = windows.flatMap(({ windowMs, quota }) => [Math.ceil(windowMs), quota]);
    const args = [hits, wanted, PREFETCH_KNOWN_MS, ...values];
    const reply = await this.run(COUNT_ALL, [`${keys[0]}:prefetched`, ...keys], args);
    const [waitMs = 0, prefetched = 0, ...facts] = reply as number[];
    const result: CountResult = { waitMs, prefetched, windows: [], epochs: [] };
    for (let i = 0; i < facts.length; i += 3) {
      const [before = 0, resetMs = 0, endsAt = 0] = facts.slice(i, i + 3);
      result.windows.push({ before, resetMs });
      result.epochs.push(endsAt);
    }
    return result;
  }

  async returnHits(windows: readonly QuotaWindow[], hits: number, epochs: readonly number[]): Promise<void> {
    const keys = windows.map(({ key }) => key);
    await this.run(RETURN_HITS, keys, [hits, ...epochs]);
  }
}
