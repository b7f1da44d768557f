// Where hits of rate windows are counted in Redis: one script a call, whose answer, a flat list of numbers,
// is read here. How many hits go as one call, and what becomes of borrowed ones, is not decided here (hits.ts).
// Times are milliseconds. Failures: those of any command.
import type { RateWindow } from './contract.ts';
import { type HitStore, LOAN_KNOWN_MS, type Taken } from './hits.ts';
import { GIVE_BACK_HITS, TAKE_HITS } from './scripts.ts';

/** Runs a script in Redis; the keys are those of the broker's own. */
type Run = (script: string, keys: readonly string[], values: readonly number[]) => Promise<unknown>;

export class RedisHits implements HitStore {
  constructor(private readonly run: Run) {}

  async take(windows: readonly RateWindow[], times: number, wanted: number): Promise<Taken> {
    const keys = windows.map(({ key }) => key);
    const values = windows.flatMap(({ windowMs, quota }) => [Math.ceil(windowMs), quota]);
    const answer = await this.run(TAKE_HITS, [`${keys[0]}:lent`, ...keys], [times, wanted, LOAN_KNOWN_MS, ...values]);
    const [waitMs = 0, lent = 0, ...facts] = answer as number[];
    const taken: Taken = { waitMs, lent, windows: [], epochs: [] };
    for (let i = 0; i < facts.length; i += 3) {
      const [before = 0, resetMs = 0, endsAt = 0] = facts.slice(i, i + 3);
      taken.windows.push({ before, resetMs });
      taken.epochs.push(endsAt);
    }
    return taken;
  }

  async giveBack(windows: readonly RateWindow[], times: number, epochs: readonly number[]): Promise<void> {
    const keys = windows.map(({ key }) => key);
    await this.run(GIVE_BACK_HITS, keys, [times, ...epochs]);
  }
}
