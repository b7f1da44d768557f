// A run of the fuzzer against a service in this process: rounds of random requests, each in a new tenant with each kind
// of credential, beside a tenant whose secrets no response and no log line may show. A timer measures how long the
// event loop stands still. Times are milliseconds.
import { setTimeout as delay } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { everyKind } from '../../test/support/credentials.ts';
import { startService, type TestService, type TestTenant } from '../../test/support/service.ts';
import type { Round, RoundReport } from './client.ts';
import type { Schema } from './values.ts';

export interface FuzzOptions {
  seed: number;
  requests: number;
  /** Longer stalls of the event loop are findings. */
  stallMs: number;
  onRound?: (done: number, findings: readonly string[]) => void;
}

export interface FuzzReport {
  requests: number;
  operations: number;
  statuses: Record<number, number>;
  findings: string[];
  longestStallMs: number;
}

const ROUND_REQUESTS = 1_000;
const TICK_MS = 5;
const CANARY = 'canary-of-the-other-tenant';

/** Runs the fuzzer on a new service. */
export async function fuzz({ seed, requests, stallMs, onRound }: FuzzOptions): Promise<FuzzReport> {
  const service = await startService({ MAX_BODY_BYTES: '200000', LOG_LEVEL: 'debug' });
  const worker = new Worker(new URL('./client.ts', import.meta.url));
  try {
    await fillOtherTenant(service);
    const document: Schema = await (await fetch(`${service.url}/swagger/json`)).json();
    const stalls = measureStalls();
    const report: FuzzReport = { requests: 0, operations: 0, statuses: {}, findings: [], longestStallMs: 0 };
    const used = new Set<string>();
    for (let round = 0; report.requests < requests; round++) {
      const count = Math.min(ROUND_REQUESTS, requests - report.requests);
      const input = await prepareRound(service, document);
      stalls.reset();
      const seen = await runRound(worker, { ...input, seed: seed + round, requests: count });
      const longest = stalls.longest();
      report.requests += count;
      report.longestStallMs = Math.max(report.longestStallMs, longest);
      for (const [status, times] of Object.entries(seen.statuses)) {
        report.statuses[Number(status)] = (report.statuses[Number(status)] ?? 0) + times;
      }
      for (const operation of seen.operations) used.add(operation);
      const found = [...seen.findings];
      if (longest > stallMs) found.push(`the event loop stood still for ${Math.round(longest)} ms`);
      if (service.logged.some((line) => line.includes(CANARY)))
        found.push('the log shows a secret of the other tenant');
      const findings = found.map((finding) => `round ${seed + round}: ${finding}`);
      report.findings.push(...findings);
      onRound?.(report.requests, findings);
    }
    stalls.stop();
    return { ...report, operations: used.size };
  } finally {
    await worker.terminate();
    await service.stop();
  }
}

function runRound(worker: Worker, round: Round): Promise<RoundReport> {
  const { promise, resolve, reject } = Promise.withResolvers<RoundReport>();
  worker.once('message', resolve);
  worker.once('error', reject);
  worker.postMessage(round);
  return promise.finally(() => {
    worker.off('message', resolve);
    worker.off('error', reject);
  });
}

/** A tenant of its own for a round: earlier rounds may have changed or deleted theirs. */
async function prepareRound(service: TestService, document: Schema): Promise<Omit<Round, 'seed' | 'requests'>> {
  const tenant = await service.tenant({ settings: { passwordReset: true, selfRegistration: true } });
  const ids = await fill(tenant);
  const credentials = { none: {}, ...(await everyKind(service, tenant)) };
  const known = [...ids, tenant.slug, 'task', 'other', 'title', 'n', 'all', 'viewer', 'owner'];
  return { url: service.url, document, credentials, slug: tenant.slug, known, canary: CANARY };
}

async function fill(tenant: TestTenant, text = 'a'): Promise<string[]> {
  await tenant.post('/api/entities', { name: 'other', fields: [{ key: 'title', type: 'text' }] });
  await tenant.post('/api/entities', {
    name: 'task',
    fields: [
      { key: 'title', type: 'text' },
      { key: 'n', type: 'number' },
      { key: 'due', type: 'date' },
      { key: 'done', type: 'boolean' },
      { key: 'link', type: 'relation', entity: 'other' },
    ],
  });
  const ids: string[] = [];
  for (let n = 0; n < 5; n++) {
    const { body } = await tenant.post('/api/entities/task/records', { title: `${text} ${n}`, n });
    ids.push(body.data?.id);
  }
  await tenant.post('/api/views', { entitySlug: 'task', slug: 'all', name: text });
  return ids.filter((id) => id !== undefined);
}

async function fillOtherTenant(service: TestService): Promise<void> {
  const other = await service.tenant();
  const ids = await fill(other, CANARY);
  if (ids.length === 0) throw new Error('the other tenant has no records');
}

/** Measures by how much a timer is late. */
function measureStalls() {
  let longest = 0;
  const stopping = new AbortController();
  const loop = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      const from = performance.now();
      await delay(TICK_MS);
      longest = Math.max(longest, performance.now() - from - TICK_MS);
    }
  };
  void loop();
  return {
    longest: () => longest,
    reset: () => {
      longest = 0;
    },
    stop: () => stopping.abort(),
  };
}
