// The times in a document: ISO 8601 in UTC with milliseconds, as the API shows them, and only days that exist.
// A schema checks the form; this file finds what Postgres would refuse.
// Contract: portability#document.
import type { Problem } from '../errors.ts';

/** Whether a text is a time as the API shows it. */
export function isTime(text: unknown): text is string {
  if (typeof text !== 'string' || text.startsWith('0000')) return false;
  const time = new Date(text);
  return !Number.isNaN(time.getTime()) && time.toISOString() === text;
}

const MEMBERS = ['createdAt', 'updatedAt', 'created_at', 'updated_at'] as const;

/** Problems for the given members that are not times. */
export function timeProblems(members: { readonly [Name in (typeof MEMBERS)[number]]?: unknown }): Problem[] {
  return MEMBERS.filter((name) => members[name] !== undefined && !isTime(members[name])).map((path) => ({
    path,
    message: 'must be a time such as 2026-03-01T09:30:00.000Z',
  }));
}
