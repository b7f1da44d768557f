// Measures two workloads in paired rounds. One response of each kind is checked before a workload is timed, and one
// failed response in a round fails the comparison: failures must not look fast.
// CPU in microseconds per request, latencies in milliseconds.

import { CpuMeter, type CpuUse, type MeteredServer, pinBackends } from './cpu.ts';
import type { Load, Plan, Target } from './generator.ts';
import { measurePairs, median, type Pair } from './paired.ts';
import type { Scratch } from './scratch.ts';

/** Shorter before rounds of less than a second. */
const WARM_MS = 400;
/** The first round of a workload also warms up compilers and caches. */
const FIRST_WARM_MS = 1_200;

export interface Workload {
  server: MeteredServer & { port: number };
  /** The requests of one round; called before each round. */
  targets(): Promise<Target[]> | Target[];
  /** Send each request at most once: it deletes, or a cached response would falsify the figure. */
  once?: boolean;
  /** How many of the first requests are checked: 1 unless the load is of several kinds. */
  kinds?: number;
  /** What is wrong with a response's `data`, or null. */
  problem(data: unknown, target: Target): string | null;
}

export interface Figure extends CpuUse {
  requestsPerSecond: number;
  p50: number;
  p99: number;
}

export interface Conditions {
  rounds: number;
  seconds: number;
  connections: number;
}

/** Medians of a single workload. */
export async function measureAlone(workload: Workload, conditions: Conditions, scratch: Scratch): Promise<Figure> {
  await checkAnswers(workload);
  const figures: Figure[] = [];
  for (let round = 0; round < conditions.rounds; round++)
    figures.push(await measureRound(workload, conditions, scratch, round));
  return medianFigure(figures);
}

/** Figures of both, by round; rejects when a response is wrong. */
export async function compare(
  baseline: Workload,
  subject: Workload,
  conditions: Conditions,
  scratch: Scratch,
): Promise<Pair<Figure>[]> {
  await checkAnswers(baseline);
  await checkAnswers(subject);
  const measure = (workload: Workload) => (round: number) => measureRound(workload, conditions, scratch, round);
  return measurePairs(conditions.rounds, measure(baseline), measure(subject));
}

/** CPU per request of server, database and Redis together. */
export function totalCpu(figure: CpuUse): number {
  return figure.app + figure.database + figure.redis;
}

/** The same of both sides of each pair. */
export function totalCpus(pairs: readonly Pair<CpuUse>[]): Pair[] {
  return pairs.map(({ baseline, subject }) => ({ baseline: totalCpu(baseline), subject: totalCpu(subject) }));
}

async function checkAnswers(workload: Workload): Promise<void> {
  const targets = (await workload.targets()).slice(0, workload.kinds ?? 1);
  if (targets.length === 0) throw new Error('no request to send');
  for (const target of targets) await checkAnswer(workload, target);
}

async function checkAnswer({ server, problem }: Workload, target: Target): Promise<void> {
  const headers = new Headers(target.headers);
  if (target.key) headers.set('authorization', `Bearer ${target.key}`);
  if (target.body !== undefined) headers.set('content-type', 'application/json');
  const answer = await fetch(`http://127.0.0.1:${server.port}${target.path}`, { ...target, headers });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${target.method} ${target.path} answers ${answer.status}: ${text.slice(0, 200)}`);
  const wrong = problem((JSON.parse(text) as { data: unknown }).data, target);
  if (wrong) throw new Error(`${target.method} ${target.path}: ${wrong}`);
}

/** One round; the first one of a workload warms up for longer. */
export async function measureRound(
  workload: Workload,
  conditions: Conditions,
  scratch: Scratch,
  round: number,
): Promise<Figure> {
  const plan: Plan = {
    port: workload.server.port,
    connections: conditions.connections,
    warmMs: round === 0 ? FIRST_WARM_MS : WARM_MS * Math.min(1, conditions.seconds),
    runMs: conditions.seconds * 1_000,
    targets: await workload.targets(),
    once: workload.once ?? false,
  };
  const meter = new CpuMeter(workload.server, scratch.postmaster, scratch.redisCpu);
  pinBackends(scratch.postmaster, workload.server.database);
  const { load, used } = await generate(plan, meter);
  if (load.failed > 0) throw new Error(`${load.failed} of ${load.requests} answers failed`);
  if (load.requests === 0) throw new Error('not one answer within the round');
  return {
    requestsPerSecond: (load.requests / load.elapsedMs) * 1_000,
    app: used.app / load.requests,
    database: used.database / load.requests,
    redis: used.redis / load.requests,
    p50: load.p50,
    p99: load.p99,
  };
}

/** Runs the generator and reads the CPU at the beginning and end of its window. */
async function generate(plan: Plan, meter: CpuMeter): Promise<{ load: Load; used: CpuUse }> {
  const child = Bun.spawn([process.execPath, '--no-env-file', `${import.meta.dir}/generator.ts`], {
    stdin: new Blob([JSON.stringify(plan)]),
    stdout: 'pipe',
    stderr: 'inherit',
  });
  let begun = false;
  for await (const line of linesOf(child.stdout)) {
    if (line === 'begin') {
      begun = true;
      await meter.begin();
    } else if (begun) return { used: await meter.end(), load: JSON.parse(line) as Load };
  }
  throw new Error(`the generator ended with exit code ${await child.exited} before its window began or ended`);
}

async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of stream) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n');
    rest = lines.pop() ?? '';
    yield* lines;
  }
}

export function medianFigure(figures: readonly Figure[]): Figure {
  const of = (part: keyof Figure) => median(figures.map((figure) => figure[part]));
  return {
    requestsPerSecond: of('requestsPerSecond'),
    app: of('app'),
    database: of('database'),
    redis: of('redis'),
    p50: of('p50'),
    p99: of('p99'),
  };
}
