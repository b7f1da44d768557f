// What a bot may do at most, besides its permissions: records written in an hour (usage/write-rate.ts), and rows of one call
// that reads. A page without a limit of its own is as large as it may be; what has no pages is refused when it is larger.
// Failures: 400 at the parameter. Contract: decisions#limits-of-a-bot.
import { invalidField } from '../errors.ts';

export interface BotLimits {
  writesPerHour?: number;
  maxRowsPerCall?: number;
}

/** A caller, as far as its limits go. */
export interface Limited {
  readonly limits?: BotLimits;
}

/** The rows of a page: as asked for, or by default. 400 for more than the caller may read in one call. */
export function rowsOfPage({ limits }: Limited, asked: number | undefined, byDefault: number): number {
  const max = limits?.maxRowsPerCall ?? Number.POSITIVE_INFINITY;
  if (asked === undefined) return Math.min(byDefault, max);
  if (asked > max) throw invalidField('limit', `must be at most ${max}, which is all that this bot may read in a call`);
  return asked;
}

/** 400 for a call that reads all rows at once, for a caller whose calls are limited. */
export function requireUnlimitedRows({ limits }: Limited, remedy: string): void {
  const max = limits?.maxRowsPerCall;
  if (max === undefined) return;
  throw invalidField(
    'request',
    `this bot may read at most ${max} rows in a call, and this one has no pages: ${remedy}`,
  );
}

/** The smaller of a limit and the rows that the caller may read in one call, less those that it has read. */
export function rowsLeft({ limits }: Limited, max: number, read = 0): number {
  return Math.min(max, Math.max(0, (limits?.maxRowsPerCall ?? Number.POSITIVE_INFINITY) - read));
}
