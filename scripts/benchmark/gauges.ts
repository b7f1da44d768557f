// Figures without a baseline, which have absolute limits: import rate, time from start to `listening`, memory of an idle
// process. A start is warm when the same service has run on the same data before.
// A start that fails becomes a row with its reason.

import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { Api } from './api.ts';
import type { Cleanup } from './cleanup.ts';
import { residentMiB } from './cpu.ts';
import {
  createItems,
  createPeople,
  createTenant,
  importItems,
  type ServiceEnv,
  serviceEnv,
  startService,
} from './service.ts';
import type { Gauge } from './verdict.ts';

const IDLE_MS = 3_000;
const EMBEDDED_RECORDS = 2_000;

type Wanted = (id: string) => boolean;

/** Records per second through the import, over both entities. */
export function importGauges(value: number | null, wanted: Wanted): Gauge[] {
  if (!wanted('import')) return [];
  const gauge = { id: 'import', label: 'bulk import', unit: 'records/s', must: 8_000, goal: 15_000, atLeast: true };
  return [value === null ? { ...gauge, failure: 'the service has no import' } : { ...gauge, value }];
}

/** Restarts the service on the data of the run, and on its own embedded data. */
export async function startGauges(env: ServiceEnv, wanted: Wanted, cleanup: Cleanup): Promise<Gauge[]> {
  if (!wanted('start')) return [];
  const start = { id: 'start', label: 'start to listening, warm, Postgres', unit: 's', must: 1, goal: 1 };
  const memory = { id: 'memory', label: 'memory of an idle process', unit: 'MiB', must: 120, goal: 90 };
  const embedded = {
    id: 'start-embedded',
    label: 'start to listening, embedded with data',
    unit: 's',
    must: 4,
    goal: 4,
  };
  const real = await attempt(() => restarted(env, cleanup));
  const own = await attempt(() => restartedEmbedded(join(env.DATA_DIR, 'embedded'), cleanup));
  return [
    { ...start, value: real.done?.seconds, failure: real.failure },
    { ...memory, value: real.done?.memory, failure: real.failure },
    { ...embedded, value: own.done?.seconds, failure: own.failure },
  ];
}

/** A failed start is a result too: it must not discard the rows measured before. */
async function attempt<T>(work: () => Promise<T>): Promise<{ done?: T; failure?: string }> {
  try {
    return { done: await work() };
  } catch (error) {
    return { failure: (error as Error).message };
  }
}

async function restartedEmbedded(directory: string, cleanup: Cleanup) {
  const env = serviceEnv(directory);
  await mkdir(env.DATA_DIR);
  await fillEmbedded(env, cleanup);
  return restarted(env, cleanup);
}

async function fillEmbedded(env: ServiceEnv, cleanup: Cleanup): Promise<void> {
  const server = await startService(env, cleanup);
  try {
    const key = await createTenant(server.port, env.ADMIN_SECRET, 'bench');
    const api = new Api(server.port, { key });
    const people = await createPeople(api);
    await createItems(api, 'items');
    await importItems(api, 'items', EMBEDDED_RECORDS, people);
  } finally {
    await server.stop();
  }
}

async function restarted(env: ServiceEnv, cleanup: Cleanup): Promise<{ seconds: number; memory: number }> {
  const server = await startService(env, cleanup);
  await Bun.sleep(IDLE_MS);
  const memory = residentMiB(server.pid);
  await server.stop();
  return { seconds: server.startMs / 1_000, memory };
}
