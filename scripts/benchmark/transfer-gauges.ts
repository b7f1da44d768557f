// A tenant as a unit: export, import under another slug, export again, on a service and a database of their own. Both documents
// must be equal but for their headers, else all gauges fail. Each step runs in a new process, whose memory counts from where
// it stood when idle; meanwhile `/health` is asked every few milliseconds.
// Rates are records a second, memory is MiB, times are milliseconds. Contract: portability#export, portability#import.

import { join } from 'node:path';
import { Api } from './api.ts';
import { residentMiB } from './cpu.ts';
import type { Measured } from './report.ts';
import type { Run } from './run.ts';
import { createItems, createPeople, createTenant, importItems, serviceEnv, startService } from './service.ts';
import type { Gauge } from './verdict.ts';

const IDLE_MS = 3_000;
const SAMPLE_MS = 20;
const LINE_FEED = 10;
const TENANTS = '/api/admin/platform/tenants';

interface Step {
  seconds: number;
  /** The most that the process held beyond what it held when idle. */
  grownMiB: number;
  /** The slowest answer of `/health`. */
  slowestMs: number;
}

/** Fills a tenant with `records` and takes it through the three steps. */
export async function measureTransfer(run: Run, records: number): Promise<Pick<Measured, 'gauges'>> {
  try {
    return { gauges: gaugesOf(await roundTrip(run, records), records) };
  } catch (error) {
    const limits = { unit: '', must: 0, goal: 0 };
    return { gauges: [{ id: 'transfer', label: 'transfer', ...limits, failure: (error as Error).message }] };
  }
}

async function roundTrip(run: Run, records: number): Promise<Record<'out' | 'in' | 'again', Step>> {
  const store = await run.scratch.openSecondStore();
  const env = serviceEnv(run.directory, { database: store.url, redis: store.redisUrl });
  const headers = { 'x-admin-secret': env.ADMIN_SECRET };
  const file = join(run.directory, 'transfer.ndjson');
  /** One step in a process of its own. */
  const step = async <T>(name: string, work: (port: number) => Promise<T>): Promise<Step & { result: T }> => {
    const server = await startService(env, run.cleanup);
    await Bun.sleep(IDLE_MS);
    // The first call is slower: it opens the connection.
    await healthMs(server.port);
    const measured = await watched(server, () => work(server.port));
    await server.stop();
    const { seconds, grownMiB, slowestMs } = measured;
    run.log(
      `${name}: ${seconds.toFixed(1)} s, ${(records / seconds).toFixed(0)} records/s, +${grownMiB.toFixed(0)} MiB, /health at most ${slowestMs.toFixed(0)} ms`,
    );
    return measured;
  };
  await fill(run, env, records);
  await run.scratch.vacuum();
  const out = await step('export', (port) => exported(port, headers, 'source', file));
  const back = await step('import', async (port) => {
    const body = Bun.file(file);
    const path = `http://127.0.0.1:${port}${TENANTS}/import?slug=copy`;
    const sent = { ...headers, 'content-type': 'application/x-ndjson' };
    // The answer comes when all is stored, however long that takes.
    const response = await fetch(path, { method: 'POST', headers: sent, body, timeout: false } as RequestInit);
    if (response.status !== 201) throw new Error(`import: ${response.status} ${(await response.text()).slice(0, 300)}`);
  });
  const again = await step('export of the copy', (port) => exported(port, headers, 'copy', null));
  if (out.result !== again.result) throw new Error('the export of the copy differs from the export of the tenant');
  return { out, in: back, again };
}

async function fill(run: Run, env: ReturnType<typeof serviceEnv>, records: number): Promise<void> {
  run.log(`filling a tenant with ${records} records`);
  const server = await startService(env, run.cleanup);
  const api = new Api(server.port, { key: await createTenant(server.port, env.ADMIN_SECRET, 'source') });
  const people = await createPeople(api);
  await createItems(api, 'items');
  await importItems(api, 'items', records, people);
  await server.stop();
}

/** Writes a tenant's document to the file, if there is one; resolves to the digest of all but its header. */
async function exported(port: number, headers: HeadersInit, slug: string, file: string | null): Promise<string> {
  const response = await fetch(`http://127.0.0.1:${port}${TENANTS}/${slug}/export`, { headers });
  if (!response.ok || response.body === null) throw new Error(`export: ${response.status}`);
  const digest = new Bun.CryptoHasher('sha256');
  const writer = file === null ? null : Bun.file(file).writer();
  let isAfterHeader = false;
  let end = '';
  for await (const chunk of response.body) {
    const lineEnd: number = isAfterHeader ? -1 : chunk.indexOf(LINE_FEED);
    if (isAfterHeader || lineEnd >= 0) digest.update(chunk.subarray(lineEnd + 1));
    isAfterHeader ||= lineEnd >= 0;
    writer?.write(chunk);
    await writer?.flush();
    end = (end + new TextDecoder().decode(chunk.subarray(-END_LENGTH))).slice(-END_LENGTH);
  }
  await writer?.end();
  if (!/\n\{"type":"end",.*\}\n$/.test(end)) throw new Error(`export: cut off after ${end.slice(-100)}`);
  return digest.digest('hex');
}

/** The last line, with the counts of its entities, is shorter. */
const END_LENGTH = 1_000;

/** Runs something while memory and `/health` of the process are watched. */
async function watched<T>(
  server: { pid: number; port: number },
  work: () => Promise<T>,
): Promise<Step & { result: T }> {
  const idle = residentMiB(server.pid);
  let peak = idle;
  let slowest = 0;
  let isOver = false;
  const watching = (async () => {
    while (!isOver) {
      slowest = Math.max(slowest, await healthMs(server.port));
      peak = Math.max(peak, residentMiB(server.pid));
      await Bun.sleep(SAMPLE_MS);
    }
  })();
  const begun = performance.now();
  try {
    const result = await work();
    return { result, seconds: (performance.now() - begun) / 1_000, grownMiB: peak - idle, slowestMs: slowest };
  } finally {
    isOver = true;
    await watching;
  }
}

async function healthMs(port: number): Promise<number> {
  const asked = performance.now();
  await (await fetch(`http://127.0.0.1:${port}/health`)).text();
  return performance.now() - asked;
}

function gaugesOf(steps: Record<'out' | 'in' | 'again', Step>, records: number): Gauge[] {
  const of = `of a tenant with ${records.toLocaleString('en-US')} records`;
  const rates = { out: { must: 10_000, goal: 20_000 }, in: { must: 5_000, goal: 10_000 } };
  const words = { out: 'export', in: 'import' };
  return (['out', 'in'] as const).flatMap((name) => {
    const { seconds, grownMiB, slowestMs } = steps[name];
    const id = `transfer-${name}`;
    const what = `${words[name]} ${of}`;
    return [
      { id, label: what, unit: 'records/s', ...rates[name], atLeast: true, value: records / seconds },
      { id: `${id}-memory`, label: `${what}: memory beyond idle`, unit: 'MiB', must: 256, goal: 64, value: grownMiB },
      { id: `${id}-health`, label: `${what}: slowest /health`, unit: 'ms', must: 250, goal: 50, value: slowestMs },
    ];
  });
}
