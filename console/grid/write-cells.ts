// Writes cells of one or many records with the ETag under which the person saw each: one cell by PATCH, more by bulk
// calls in which each record succeeds or fails by itself. A record that changed meanwhile is read again and written
// with its new ETag if the cells in question are as they were; else nothing of it is written.

import type { Page, Problem, Row } from '../api/answers.ts';
import { call, post } from '../api/call.ts';
import { ApiError, isAborted, OfflineError, statusOf } from '../api/errors.ts';

export interface Change {
  id: string;
  key: string;
  before: unknown;
  value: unknown;
  /** Of the record in which `before` was seen. */
  etag: string | null;
}

/** What became of a change; `row` and `etag` are those of the record now. */
export type Outcome = Change &
  (
    | { kind: 'saved' | 'merged'; row: Row; now: string | null }
    /** Someone else changed the same cell. */
    | { kind: 'overtaken'; row: Row; now: string | null }
    | { kind: 'refused'; message: string; row?: Row }
    | { kind: 'unsent' }
  );

export interface Target {
  tenant: string;
  /** Of the entity's records. */
  path: string;
}

export interface BulkResult {
  index: number;
  id: string | null;
  success: boolean;
  data?: Row;
  etag?: string;
  error?: { code: string; message: string; details?: readonly Problem[] };
}

/** The API takes more in one call; smaller ones show how far it is and can be stopped. */
export const PER_CALL = 250;
/** As many ids as a condition of 2,000 characters has room for. */
export const IDS_PER_CALL = 50;
const MOST_TRIES = 4;

interface Options {
  signal?: AbortSignal | undefined;
  /** After each call, with what it led to. */
  onPart?: (outcomes: readonly Outcome[]) => void;
}

/** The outcome of each change, in no particular order; those that were not begun when `signal` aborted are left out. */
export async function writeCells(
  target: Target,
  changes: readonly Change[],
  options: Options = {},
): Promise<Outcome[]> {
  const records = [...Map.groupBy(changes, ({ id }) => id).values()];
  const outcomes: Outcome[] = [];
  for (let at = 0; at < records.length && !options.signal?.aborted; at += PER_CALL) {
    const part = await writeRecords(target, records.slice(at, at + PER_CALL), 1);
    outcomes.push(...part);
    options.onPart?.(part);
    if (part.some(({ kind }) => kind === 'unsent')) {
      outcomes.push(...unsent(records.slice(at + PER_CALL).flat()));
      break;
    }
  }
  return outcomes;
}

/** `records`: the changes of each. */
async function writeRecords(target: Target, records: readonly Change[][], tries: number): Promise<Outcome[]> {
  try {
    const results = records.length === 1 ? [await patched(target, records[0] ?? [])] : await bulk(target, records);
    const outcomes: Outcome[] = [];
    const lost: Change[][] = [];
    records.forEach((changes, at) => {
      const { data, etag = null, error } = results[at] ?? {};
      if (data !== undefined) {
        const kind = tries === 1 ? 'saved' : 'merged';
        outcomes.push(...changes.map((change): Outcome => ({ ...change, kind, row: data, now: etag })));
      } else if (error?.code === 'PRECONDITION_FAILED') lost.push(changes);
      else outcomes.push(...changes.map((change): Outcome => refused(change, error)));
    });
    return lost.length === 0 ? outcomes : [...outcomes, ...(await again(target, lost, tries))];
  } catch (cause) {
    if (cause instanceof OfflineError) return unsent(records.flat());
    if (isAborted(cause)) throw cause;
    return records.flat().map((change) => refused(change, cause as Error));
  }
}

/** Of lost races: those that are about other cells are written again. */
async function again(target: Target, records: readonly Change[][], tries: number): Promise<Outcome[]> {
  const read = await readRecords(
    target,
    records.map(([change]) => change?.id ?? ''),
  );
  const outcomes: Outcome[] = [];
  const next: Change[][] = [];
  for (const changes of records) {
    const now = read.get(changes[0]?.id ?? '');
    if (now === undefined) {
      outcomes.push(...changes.map((change) => refused(change, new Error('The record is gone.'))));
      continue;
    }
    const { row, etag } = now;
    const isDone = changes.every(({ key, value }) => isSame(row[key], value));
    const isLost = changes.some(({ key, before }) => !isSame(row[key], before));
    // A call whose answer was lost may have been carried out.
    if (isDone) outcomes.push(...changes.map((change): Outcome => ({ ...change, kind: 'saved', row, now: etag })));
    else if (isLost || tries >= MOST_TRIES)
      outcomes.push(...changes.map((change): Outcome => ({ ...change, kind: 'overtaken', row, now: etag })));
    else next.push(changes.map((change) => ({ ...change, etag })));
  }
  return next.length === 0 ? outcomes : [...outcomes, ...(await writeRecords(target, next, tries + 1))];
}

async function patched(
  { tenant, path }: Target,
  changes: readonly Change[],
): Promise<Omit<BulkResult, 'index' | 'id'>> {
  const [{ id = '', etag = null } = {}] = changes;
  const headers: Record<string, string> = etag === null ? {} : { 'If-Match': etag };
  try {
    const answer = await call<Row>('PATCH', `${path}/${id}`, { tenant, body: valuesOf(changes), headers });
    return { success: true, data: answer.data, ...(answer.etag === null ? {} : { etag: answer.etag }) };
  } catch (cause) {
    if (statusOf(cause) !== 412) throw cause;
    return { success: false, error: cause as ApiError };
  }
}

async function bulk(target: Target, records: readonly Change[][]): Promise<BulkResult[]> {
  return sendBulk(
    target,
    records.map((changes) => {
      const [{ id = '', etag = null } = {}] = changes;
      return { op: 'update', id, data: valuesOf(changes), ...(etag === null ? {} : { etag }) };
    }),
  );
}

/** Sends operations that succeed or fail by themselves; waits when the service wants that. */
export async function sendBulk({ tenant, path }: Target, operations: readonly object[]): Promise<BulkResult[]> {
  const body = { atomic: false, operations };
  for (let tries = 1; ; tries += 1) {
    try {
      return (await post<{ results: BulkResult[] }>(`${path}/bulk`, body, { tenant })).results;
    } catch (cause) {
      if (!(cause instanceof ApiError) || ![429, 503].includes(cause.status) || tries > MOST_TRIES) throw cause;
      await new Promise((resolve) => setTimeout(resolve, Math.min(10_000, cause.retryAfterMs ?? 1_000 * 2 ** tries)));
    }
  }
}

/** Records as they are now, by id; those that are gone or hidden are missing. */
export async function readRecords(
  { tenant, path }: Target,
  ids: readonly string[],
  fields = '',
): Promise<Map<string, { row: Row; etag: string | null }>> {
  const found = new Map<string, { row: Row; etag: string | null }>();
  for (let at = 0; at < ids.length; at += IDS_PER_CALL) {
    const filters = `id in (${ids.slice(at, at + IDS_PER_CALL).join(', ')})`;
    const query = { filters, limit: IDS_PER_CALL, count: 'none', with: 'etags', fields };
    const { data } = await call<Page<Row>>('GET', path, { tenant, query });
    data.items.forEach((row, index) => void found.set(row.id, { row, etag: data.etags?.[index] ?? null }));
  }
  return found;
}

function valuesOf(changes: readonly Change[]): Record<string, unknown> {
  return Object.fromEntries(changes.map(({ key, value }) => [key, value]));
}

function refused(change: Change, error: { message: string; details?: readonly Problem[] } | undefined): Outcome {
  const problem = error?.details?.find(({ path }) => path.replace(/^(body|data)\./, '') === change.key);
  return { ...change, kind: 'refused', message: problem?.message ?? error?.message ?? 'was not written' };
}

function unsent(changes: readonly Change[]): Outcome[] {
  return changes.map((change) => ({ ...change, kind: 'unsent' }));
}

export function isSame(one: unknown, other: unknown): boolean {
  return JSON.stringify(one ?? null) === JSON.stringify(other ?? null);
}
