// Limits how many runs of after rules a tenant may have waiting, and how many bytes the records of waiting runs may have. A
// process counts both in the database, then adds its own until a twentieth of the remaining room is used, and counts again. So
// few writes need a query, and many processes together exceed the limits by little. A full queue is counted again every second.
// Counting 200,000 runs takes 70 ms of an index-only scan. Times are milliseconds.
// Failures: 429 while a limit is reached.
// Contract: neighbours#byte-budgets.
import { type App, perApp } from '../../app.ts';
import { rateLimited } from '../../errors.ts';
import { LIMITS } from '../../limits.ts';
import { type Queries, sql } from '../../runtime/sql.ts';

/** A number of runs, and the bytes of the records that they start with. */
export interface Runs {
  runs: number;
  bytes: number;
}

const MAX: Runs = { runs: LIMITS.rules.pendingMax, bytes: LIMITS.rules.pendingBytesMax };
const KINDS = ['runs', 'bytes'] as const;
/** How much a process may start before its first count. */
const UNCOUNTED_MAX: Runs = { runs: 100, bytes: 16_777_216 };
/** How much a process may start between two counts: this part of the remaining room, but at least the minimum. */
const ROOM_PART = 1 / 20;
const STEP_MIN: Runs = { runs: 1_000, bytes: 16_777_216 };
/** How long a queue counts as full, and after which time refused clients should try again. */
const FULL_FOR_MS = 1_000;
const RETRY_AFTER_S = 10;
const TENANTS_MAX = 10_000;

interface Known {
  /** The last count, its time, and what this process has started since then. */
  counted: Runs;
  at: number;
  started: Runs;
}

const knownOf = perApp(() => new Map<string, Known>());

/** Counts runs that a write is about to start. 429 when too many runs wait, or when their records have too many bytes. */
export async function requireRoomForRuns(app: App, queries: Queries, tenantId: string, added: Runs): Promise<void> {
  const tenants = knownOf(app);
  const none = { runs: 0, bytes: 0 };
  const known = tenants.get(tenantId) ?? { counted: MAX, at: Number.NEGATIVE_INFINITY, started: none };
  remember(tenants, tenantId, known);
  const full = (): 'runs' | 'bytes' | undefined =>
    KINDS.find((kind) => known.counted[kind] + known.started[kind] + added[kind] > MAX[kind]);
  if (needsCount(known, added, full() !== undefined)) {
    known.counted = await countRuns(queries, tenantId);
    Object.assign(known, { at: performance.now(), started: none });
  }
  const kind = isCounted(known) ? full() : undefined;
  if (kind !== undefined) throw rateLimited(REFUSALS[kind], RETRY_AFTER_S);
  known.started = { runs: known.started.runs + added.runs, bytes: known.started.bytes + added.bytes };
}

const REFUSALS = {
  runs: `${MAX.runs.toLocaleString('en')} runs of this tenant's after rules wait already; try again when some have ended`,
  bytes: `the records of this tenant's waiting after rules take ${MAX.bytes} bytes already; try again when some have ended`,
} as const;

function isCounted({ at }: Known): boolean {
  return at !== Number.NEGATIVE_INFINITY;
}

function needsCount(known: Known, added: Runs, isFull: boolean): boolean {
  const { counted, at, started } = known;
  if (!isCounted(known)) return KINDS.some((kind) => started[kind] + added[kind] > UNCOUNTED_MAX[kind]);
  if (isFull) return performance.now() - at >= FULL_FOR_MS;
  return KINDS.some(
    (kind) => started[kind] + added[kind] > Math.max(STEP_MIN[kind], (MAX[kind] - counted[kind]) * ROOM_PART),
  );
}

/** Counts the bytes of each record once, however many runs it waits for. */
async function countRuns(queries: Queries, tenantId: string): Promise<Runs> {
  const row = await queries.first<Runs>(sql`
    select (
        select count(*)
        from (select from platform.rule_runs where tenant_id = ${tenantId}::uuid limit ${MAX.runs}::int) as r
      )::int as runs,
      (select coalesce(sum(bytes), 0) from platform.rule_images where tenant_id = ${tenantId}::uuid)::float8 as bytes`);
  return row ?? { runs: 0, bytes: 0 };
}

function remember(tenants: Map<string, Known>, tenantId: string, known: Known): void {
  tenants.set(tenantId, known);
  if (tenants.size <= TENANTS_MAX) return;
  for (const oldest of tenants.keys()) {
    tenants.delete(oldest);
    return;
  }
}
