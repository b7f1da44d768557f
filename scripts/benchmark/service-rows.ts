// All result rows for the service: against the bare handler, with a role-limited key, with each kind of credential,
// through a view, on a large entity, of the past; import, the long run, and the gauges (start, memory). A group whose
// endpoints the service lacks becomes one row with the reason.

import { roleComparisons, viewComparisons } from './access-rows.ts';
import { isMissing } from './api.ts';
import { bareWorkloads } from './bare-workloads.ts';
import { credentialComparisons } from './credential-rows.ts';
import { importGauges, startGauges } from './gauges.ts';
import { historyComparisons } from './history-rows.ts';
import { importRow } from './import-rows.ts';
import type { Conditions } from './measure.ts';
import type { Measured } from './report.ts';
import { bareComparisons, type Comparison, measureRows, type Row } from './rows.ts';
import type { Bench, ServiceRun } from './run.ts';
import { scaleComparisons } from './scale-rows.ts';
import { fillService, serviceEnv, startService } from './service.ts';
import { serviceWorkloads } from './service-workloads.ts';
import { soak } from './soak.ts';
import { progressLine } from './verdict.ts';

/** The long run takes rounds of a minute. */
const SOAK_SECONDS = 60;

/** Measures the chosen rows and gauges. */
export async function measureService(run: ServiceRun): Promise<Omit<Measured, 'bare'>> {
  const { options, scratch, log } = run;
  const env = serviceEnv(run.directory, { database: scratch.service.url, redis: scratch.redisUrl });
  const wanted = (id: string) => options.only?.has(id) ?? true;
  const server = await startService(env, run.cleanup);
  log(`filling the service with 2 x ${options.records} records`);
  const filled = await fillService(server.port, env.ADMIN_SECRET, options.records);
  await scratch.vacuum();
  const own = { pid: server.pid, port: server.port, database: scratch.service.database };
  const bench: Bench = { ...run, env, fixture: { ...filled, server: own, records: options.records } };
  const rows = await compareAll(bench, wanted);
  const imported = wanted('import') ? [await importRow(bench)] : [];
  const long = await soakOf(bench);
  await server.stop();
  return {
    rows,
    figures: [...imported, ...long.figures],
    soak: long.minutes,
    gauges: [...importGauges(filled.importPerSecond, wanted), ...(await startGauges(env, wanted, run.cleanup))],
  };
}

async function soakOf(bench: Bench): Promise<Awaited<ReturnType<typeof soak>>> {
  const { soak: minutes } = bench.options;
  if (minutes === null) return { minutes: [], figures: [] };
  return soak(bench, serviceWorkloads(bench.fixture, SOAK_SECONDS).mixed, minutes);
}

async function compareAll(bench: Bench, wanted: (id: string) => boolean): Promise<Row[]> {
  const { options, scratch, log } = bench;
  const conditions: Conditions = options;
  const service = serviceWorkloads(bench.fixture, options.seconds);
  const groups: Array<{ ids: readonly string[]; prepare: () => Comparison[] | Promise<Comparison[]> }> = [
    { ids: [], prepare: () => bareComparisons(bareWorkloads(bench.bare, options.seconds), service) },
    { ids: ['role'], prepare: () => roleComparisons(bench, service) },
    { ids: ['credentials'], prepare: () => credentialComparisons(bench, service) },
    { ids: ['view'], prepare: () => viewComparisons(bench, service) },
  ];
  if (options.scale) groups.push({ ids: ['scale'], prepare: () => scaleComparisons(bench, options.scale as number) });
  if (options.history) {
    const events = options.history;
    groups.push({ ids: ['history'], prepare: () => historyComparisons(bench, service, events) });
  }
  const rows: Row[] = [];
  for (const { ids, prepare } of groups) {
    if (ids.length > 0 && !ids.some(wanted)) continue;
    const comparisons = await prepareGroup(ids[0] ?? 'bare', prepare, rows);
    const chosen = ids.length > 0 ? comparisons : comparisons.filter(({ id }) => wanted(id));
    rows.push(...(await measureRows(chosen, conditions, scratch, (row) => log(progressLine(row)))));
  }
  return rows;
}

/** A group that cannot be set up becomes one row with the reason: skipped when the service lacks the endpoint. */
async function prepareGroup(id: string, prepare: () => Comparison[] | Promise<Comparison[]>, rows: Row[]) {
  try {
    return await prepare();
  } catch (error) {
    const { message } = error as Error;
    const reason = isMissing(error) ? { skipped: `not offered: ${message}` } : { failure: message };
    rows.push({ id, label: id, against: '', must: null, goal: null, ...reason });
    return [];
  }
}
