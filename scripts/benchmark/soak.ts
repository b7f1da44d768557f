// The mixed load for many minutes on one service: what each minute took, what the process and its backends hold, and what
// autovacuum found. The last third of the minutes is compared with the first: p99 and memory must stay flat.
// Times are milliseconds, memory is MiB. A minute with a failed response fails the rows.

import postgres from 'postgres';
import { backendsMemory, residentMiB } from './cpu.ts';
import { type FigureRow, type RowDefinition, row } from './figure-rows.ts';
import { measureRound, type Workload } from './measure.ts';
import { median } from './paired.ts';
import type { Bench } from './run.ts';

const MINUTE_SECONDS = 60;

export interface SoakMinute {
  requestsPerSecond: number;
  p50: number;
  p99: number;
  processMiB: number;
  backends: number;
  /** Private memory of all backends together. */
  backendsMiB: number;
  deadTuples: number;
  /** Since the database was created. */
  autovacuums: number;
}

type Flat = 'p99' | 'processMiB' | 'backendsMiB';
const FLAT: Record<Flat, { label: string; unit: string }> = {
  p99: { label: 'p99', unit: 'ms' },
  processMiB: { label: 'memory of the process', unit: 'MiB' },
  backendsMiB: { label: 'private memory of the backends', unit: 'MiB' },
};

/** Runs `minutes` rounds of one minute of a workload that was made for rounds of a minute. */
export async function soak({ fixture, scratch, options, log }: Bench, mixed: Workload, minutes: number) {
  const sql = postgres(scratch.service.url, { max: 1, onnotice: () => {} });
  const conditions = { rounds: 1, seconds: MINUTE_SECONDS, connections: options.connections };
  const measured: SoakMinute[] = [];
  let failure: string | undefined;
  try {
    while (measured.length < minutes) {
      const { requestsPerSecond, p50, p99 } = await measureRound(mixed, conditions, scratch, measured.length);
      const backends = backendsMemory(scratch.postmaster, fixture.server.database).map(({ own }) => own);
      const minute = {
        ...{ requestsPerSecond, p50, p99, processMiB: residentMiB(fixture.server.pid), backends: backends.length },
        ...{ backendsMiB: backends.reduce((sum, own) => sum + own, 0), ...(await vacuumed(sql)) },
      };
      measured.push(minute);
      log(`soak, minute ${measured.length}: p99 ${p99.toFixed(1)} ms, ${minute.processMiB.toFixed(0)} MiB`);
    }
  } catch (error) {
    failure = (error as Error).message;
  }
  await sql.end();
  return { minutes: measured, figures: await flatRows(measured, failure) };
}

/** The last third of the minutes against the first. */
function flatRows(minutes: readonly SoakMinute[], failure: string | undefined): Promise<FigureRow[]> {
  const third = Math.max(1, Math.floor(minutes.length / 3));
  const rows = Object.entries(FLAT).map(([name, { label, unit }]) => {
    const of = (some: readonly SoakMinute[]) => median(some.map((minute) => minute[name as Flat]));
    const definition: RowDefinition = {
      ...{ id: `soak-${name}`, label: `${label}, last third of ${minutes.length} minutes`, against: 'the first third' },
      ...{ unit, must: 1.2, goal: 1.1 },
    };
    return row(definition, async () => {
      if (failure !== undefined) throw new Error(failure);
      return [{ baseline: of(minutes.slice(0, third)), subject: of(minutes.slice(-third)) }];
    });
  });
  return Promise.all(rows);
}

async function vacuumed(sql: postgres.Sql): Promise<Pick<SoakMinute, 'deadTuples' | 'autovacuums'>> {
  const [sums] = await sql<Pick<SoakMinute, 'deadTuples' | 'autovacuums'>[]>`
    select coalesce(sum(n_dead_tup), 0)::int as "deadTuples", coalesce(sum(autovacuum_count), 0)::int as autovacuums
    from pg_stat_user_tables`;
  return sums ?? { deadTuples: 0, autovacuums: 0 };
}
