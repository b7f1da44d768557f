// This checkout's service against that of another checkout, such as the last release, in one run: the same requests, on
// databases of their own that hold the same records. Both run with this checkout's Bun.
// The other checkout needs its dependencies installed.

import { resolve } from 'node:path';
import type { Workloads } from './fixture.ts';
import { OPERATIONS } from './options.ts';
import { type Comparison, measureRows, type Row } from './rows.ts';
import type { Run } from './run.ts';
import type { ServiceStore } from './scratch.ts';
import { fillService, serviceEnv, startService } from './service.ts';
import { serviceWorkloads } from './service-workloads.ts';
import { progressLine } from './verdict.ts';

/** A row is no slower when its ratio stays below this: the noise of a quiet machine is about 5 %. */
const MUST = 1.1;
const GOAL = 1.0;

export async function measureAgainst(run: Run, checkout: string): Promise<Row[]> {
  const { options, scratch, log } = run;
  const { baseline, subject } = await startBoth(run, checkout);
  const comparisons = OPERATIONS.filter((id) => options.only?.has(id) ?? true).map((id): Comparison => {
    const named = { id, label: id, against: checkout, must: MUST, goal: GOAL };
    return { ...named, baseline: baseline[id], subject: subject[id] };
  });
  return measureRows(comparisons, options, scratch, (row) => log(progressLine(row)));
}

/** The requests to the service of the other checkout, and to that of this one. */
export async function startBoth(run: Run, checkout: string): Promise<{ baseline: Workloads; subject: Workloads }> {
  const { scratch } = run;
  const baseline = await startFilled(run, resolve(checkout), await scratch.openSecondStore());
  const subject = await startFilled(run, '.', { ...scratch.service, redisUrl: scratch.redisUrl });
  await scratch.vacuum();
  return { baseline, subject };
}

/** Starts the service of a checkout and fills it; resolves to the requests of each operation. */
async function startFilled(run: Run, checkout: string, store: ServiceStore): Promise<Workloads> {
  const { options, directory, cleanup, log } = run;
  const env = serviceEnv(directory, { database: store.url, redis: store.redisUrl });
  const server = await startService(env, cleanup, checkout);
  log(`filling the service of ${checkout} with 2 x ${options.records} records`);
  const filled = await fillService(server.port, env.ADMIN_SECRET, options.records);
  const own = { pid: server.pid, port: server.port, database: store.database };
  return serviceWorkloads({ ...filled, server: own, records: options.records }, options.seconds);
}
