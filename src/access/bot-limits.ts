// The limits of a bot besides its permissions: records written per hour (usage/write-rate.ts), and rows that one call may read.
// A page without a limit in the request has the default number of rows, but at most as many as the bot may read. A call without
// pages is refused when it would read more.
// Failures: 400 at the parameter.
// Contract: decisions#limits-of-a-bot.
import { invalidField } from '../errors.ts';

export interface BotLimits {
  writesPerHour?: number;
  maxRowsPerCall?: number;
}

/** The part of a caller that has its limits. */
export interface Limited {
  readonly limits?: BotLimits;
}

/** The rows of a page: as requested, or by default. 400 for more than the caller may read in one call. */
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

/** The smaller of a limit and the number of rows that the caller may still read in this call, after `read` rows. */
export function rowsLeft({ limits }: Limited, max: number, read = 0): number {
  return Math.min(max, Math.max(0, (limits?.maxRowsPerCall ?? Number.POSITIVE_INFINITY) - read));
}
