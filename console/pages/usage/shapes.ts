// What the API answers about a tenant's usage.
import type { UsageDay } from '../../../src/usage/report.ts';

/** `day` is UTC, as `YYYY-MM-DD`. */
export type Day = UsageDay;

export interface Usage {
  days: Day[];
  now: { records: Record<string, number>; storageBytes: number; users: number };
}
