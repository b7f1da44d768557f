// The ratios of the rows that CI checks, as they were accepted: `ratios.json` here and in the checkout compared with.
// A row is worse when it needs over 1.25 times the CPU that it needed there. A commit that makes a row dearer on purpose
// raises its ratio in the file, and so its limit; a lower ratio does not lower the limit.

import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

export type Ratios = Readonly<Record<string, number>>;

export const RATIOS_FILE = 'scripts/benchmark/ratios.json';
const TOLERANCE = 1.25;

/** Empty for a checkout from before the file. */
export function readRatios(checkout: string): Ratios {
  const file = join(checkout, RATIOS_FILE);
  return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : {};
}

/** The largest ratio of the CPU of a row here to that before, for every row of the file. */
export function limits(here: Ratios, before: Ratios): Map<string, number> {
  return new Map(
    Object.entries(here).map(([id, ratio]) => [id, TOLERANCE * Math.max(1, ratio / (before[id] ?? ratio))]),
  );
}
