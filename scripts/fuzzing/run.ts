// A run of the fuzzer against a service in this process, or in one of its own (SERVICE_RUNTIME): rounds of random requests, each in
// a new tenant with each kind of credential, beside a tenant whose secrets no response and no log line may show. Measures how long
// the service's event loop stands still, but on Deno. Times are milliseconds.
import process from 'node:process';
import { setTimeout as delay } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { type Receiver, startReceiver } from '../../test/support/receiver.ts';
import { startService, type TestService } from '../../test/support/service.ts';
import { runtimeApart } from '../../test/support/service-apart.ts';
import type { Round, RoundReport } from './client.ts';
import { type Coverage, coverageOf, type Successes } from './coverage.ts';
import type { Schema } from './json.ts';
import { measureStalls, NONE, STALL_LOGGED, type Stall, type Stalls } from './stalls.ts';
import { fillTenant, type RoundTenant, roundTenant, SECRETS_BY_KIND } from './tenant.ts';

export interface FuzzOptions {
  seed: number;
  requests: number;
  /** Longer stalls of the event loop are findings. */
  stallMs: number;
  onRound?: (done: number, findings: readonly string[], leftOut: readonly string[]) => void;
}

export interface FuzzReport {
  requests: number;
  coverage: Coverage;
  statuses: Record<string, number>;
  /** How often each reason for a refusal was given, by operation. */
  refusals: RoundReport['refusals'];
  findings: string[];
  /** 503 while this process had no core: no findings. */
  leftOut: string[];
  /** By CPU time of the thread, and by the clock; the longest collection of garbage by CPU time. */
  longestStall: Omit<Stall, 'endedAt'>;
}

/** In rounds of this size most credentials and definitions last to the end. */
export const ROUND_REQUESTS = 500;
/** A process that was stopped for longer, or waited for a core in so much of the time, gives up what waits, with 503. */
const STOPPED_MS = 3_000;
const STARVED = 0.3;
/** Requests that ended so little before a stall may have caused it. */
const NEAR_MS = 5;
const UNAVAILABLE = /: 503 |"status":503|no response in time/;
/** Errors in the log that requests may cause: a stopped tenant's work is given up. */
const LOGGED_ERROR = '"level":"error"';

/** Runs the fuzzer on a new service. */
export async function fuzz({ seed, requests, stallMs, onRound }: FuzzOptions): Promise<FuzzReport> {
  const canary = `canary-of-another-${Date.now().toString(36)}`;
  const receiver = await startReceiver();
  const loopback = { WEBHOOK_ALLOWED_CIDRS: '127.0.0.0/8' };
  const service = await startService({ LOG_LEVEL: 'debug', TRUST_PROXY: '1', ...loopback });
  const worker = new Worker(new URL('./client.ts', import.meta.url));
  const stalls = measureStalls();
  const uncaught: string[] = [];
  const onUncaught = (error: unknown): void => void uncaught.push(`uncaught: ${Bun.inspect(error).slice(0, 1_500)}`);
  process.on('uncaughtException', onUncaught);
  try {
    const other = await service.tenant();
    await fillTenant(other, canary);
    const document: Schema = await (await fetch(`${service.url}/swagger/json`)).json();
    const report = {
      requests: 0,
      statuses: {},
      refusals: {} as RoundReport['refusals'],
      findings: [] as string[],
      leftOut: [] as string[],
      longestStall: NONE as FuzzReport['longestStall'],
    };
    const allowed = new Set<string>();
    const successes: Successes = {};
    let next = nextTenant(service, receiver);
    for (let round = 0; report.requests < requests; round++) {
      const count = Math.min(ROUND_REQUESTS, requests - report.requests);
      const tenant = await next;
      tenant.kept.push(other.slug, other.id);
      stalls.reset();
      const loggedBefore = service.logged.length;
      const input = { ...tenant, url: service.url, document, canary, seed: seed + round, requests: count };
      const running = runRound(worker, input);
      if (report.requests + count < requests) next = nextTenant(service, receiver);
      const [seen] = await Promise.all([running, next]);
      report.requests += count;
      add(report.statuses, seen.statuses);
      add(successes, seen.successes);
      for (const [operation, reasons] of Object.entries(seen.refusals)) {
        report.refusals[operation] = { ...report.refusals[operation] };
        add(report.refusals[operation], reasons);
      }
      for (const pair of seen.allowed) allowed.add(pair);
      const isStarved = stalls.longest().wallMs > STOPPED_MS || stalls.starved() > STARVED;
      const lines = service.logged.slice(loggedBefore);
      // Of the service in this process: a heap that grows by them would be collected for longer and longer.
      service.logged.length = 0;
      const stalled = stallFindings(stalls, stallMs, report, lines);
      const found = [
        ...seen.findings,
        ...stalled,
        ...logFindings(lines, canary),
        ...sentFindings(receiver, canary),
        ...uncaught.splice(0),
      ].map((finding) => `round ${seed + round}: ${finding}`);
      const leftOut = found.filter((finding) => isStarved && UNAVAILABLE.test(finding));
      const findings = found.filter((finding) => !leftOut.includes(finding));
      report.findings.push(...findings);
      report.leftOut.push(...leftOut);
      onRound?.(report.requests, findings, leftOut);
    }
    return { ...report, coverage: coverageOf(allowed, successes) };
  } finally {
    process.off('uncaughtException', onUncaught);
    stalls.stop();
    await worker.terminate();
    await service.stop();
    await receiver.stop();
  }
}

/** Made beside the requests of the round before, so that a busy machine may refuse a part of it for a while. */
async function nextTenant(service: TestService, receiver: Receiver): Promise<RoundTenant> {
  for (let failures = 0; ; failures++) {
    try {
      return await roundTenant(service, receiver.url);
    } catch (error) {
      if (failures >= 5 || !String(error).includes('SERVICE_UNAVAILABLE')) throw error;
      await delay(2_000);
    }
  }
}

function add(to: Record<string, number>, from: Record<string, number>): void {
  for (const [name, times] of Object.entries(from)) to[name] = (to[name] ?? 0) + times;
}

function stallFindings(
  stalls: Stalls,
  stallMs: number,
  report: { longestStall: FuzzReport['longestStall'] },
  lines: readonly string[],
): string[] {
  if (process.env.SERVICE_RUNTIME === 'deno') return [];
  const { cpuMs, wallMs, endedAt, collectionMs } = longestStall(stalls, lines);
  report.longestStall = {
    cpuMs: Math.max(report.longestStall.cpuMs, cpuMs),
    wallMs: Math.max(report.longestStall.wallMs, wallMs),
    collectionMs: Math.max(report.longestStall.collectionMs, collectionMs),
  };
  if (cpuMs <= stallMs) return [];
  const near = lines.flatMap((line) => {
    const { time, msg, method, path, status, durationMs, tool } = JSON.parse(line);
    const lateMs = Date.parse(time) - endedAt;
    const isNear = msg === 'request' && lateMs >= -NEAR_MS && lateMs - durationMs <= 0;
    return isNear ? [`${method} ${path} ${tool ?? ''} ${status} in ${durationMs} ms, ${lateMs} ms after it`] : [];
  });
  return [
    `the event loop stood still for ${Math.round(cpuMs)} ms of CPU time, beside\n    ${near.slice(0, 12).join('\n    ')}`,
  ];
}

/** That of this thread, or what a service in a process of its own has logged. */
function longestStall(stalls: Stalls, lines: readonly string[]): Stall {
  if (runtimeApart(process.env.SERVICE_RUNTIME) === undefined) return stalls.longest();
  const logged = lines.filter((line) => line.includes(STALL_LOGGED)).map((line): Stall => JSON.parse(line));
  const longest = logged.reduce((a, b) => (b.cpuMs > a.cpuMs ? b : a), NONE);
  return { ...longest, collectionMs: Math.max(0, ...logged.map((stall) => stall.collectionMs)) };
}

/** What the log must not have: a secret, or an error, which no request may cause. */
function logFindings(lines: readonly string[], canary: string): string[] {
  const shown = lines
    .filter((line) => line.includes(canary))
    .map((line) => `the log shows a secret: ${line.slice(0, 800)}`);
  const errors = lines.filter((line) => line.includes(LOGGED_ERROR)).map((line) => `logged: ${line.slice(0, 1_500)}`);
  return [...shown.slice(0, 3), ...errors.slice(0, 5)];
}

/** Webhooks for a limited role that carry what it may not see. */
function sentFindings(receiver: Receiver, canary: string): string[] {
  const secrets = [canary, ...(SECRETS_BY_KIND.webhook ?? [])];
  const sent = receiver.received.splice(0).filter(({ path }) => path.startsWith('/limited'));
  return sent
    .filter(({ text }) => secrets.some((secret) => text.includes(secret)))
    .map(({ text }) => `a webhook for a limited role carries a secret: ${text.slice(0, 800)}`);
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
