// The rows about neighbours: what one tenant's requests suffer while another tenant attacks, beside the same requests on a
// quiet service. Each attack has a tenant of its own, which is deleted afterwards; `mix` runs several at once. The p99 of a
// round is its fifth slowest request, so a row is the median of its rounds.
// Times are milliseconds, memory is MiB.

import { Api } from '../api.ts';
import { unpin } from '../children.ts';
import { residentMiB } from '../cpu.ts';
import { item } from '../dataset.ts';
import { until } from '../events/listeners.ts';
import { median } from '../paired.ts';
import type { Run } from '../run.ts';
import { createItems, createPeople, createTenant, serviceEnv, startService } from '../service.ts';
import type { Attack, Strike } from './attack.ts';
import { Attacker, type Host } from './attacker.ts';
import { CHANGE_ATTACKS } from './attacks-by-changes.ts';
import { READ_ATTACKS, WRITE_ATTACKS } from './attacks-by-load.ts';
import { RECEIVER_ATTACKS } from './attacks-by-receivers.ts';
import { STRANGERS_ATTACKS } from './attacks-by-strangers.ts';
import { RULE_ATTACKS, VALUE_ATTACKS } from './attacks-by-values.ts';
import type { Plan, Suffered } from './victim.ts';

const ATTACKS = [
  ...VALUE_ATTACKS,
  ...RULE_ATTACKS,
  ...READ_ATTACKS,
  ...WRITE_ATTACKS,
  ...RECEIVER_ATTACKS,
  ...CHANGE_ATTACKS,
  ...STRANGERS_ATTACKS,
];
const MIX = ['contains', 'aggregates', 'rule-chain', 'stalled-exports', 'imports', 'creates', 'black-holes', 'sockets'];
const RECORDS = 10_000;
const RUN_MS = 8_000;
const ROUNDS = 3;
const PER_SECOND = 60;
const RAMP_MS = 1_000;
const SAMPLE_MS = 100;
const COOL_DOWN_MS = 60_000;
const QUIET_PROBES = 20;
const QUIET_MS = 15;
/** The bar: twice the quiet p99, or 25 ms, whichever is more; and calls on the slow pools start within 2 s. */
const BAR = { factor: 2, atLeastMs: 25, startMs: 2_000 } as const;

/** The median of the rounds; of /health, the export and the definition change the slowest, of failures the sum. */
export interface SufferedRounds extends Suffered {
  p99Lowest: number;
  p99Highest: number;
}

export interface NeighbourRow {
  id: string;
  label: string;
  suffered?: SufferedRounds;
  /** Memory of the process at its highest during the attack, and after it. */
  peakMiB?: number;
  afterMiB?: number;
  /** Statuses of the responses to the attacker. */
  statuses?: string;
  failure?: string;
  /** Whether the victim stayed within the bar. */
  isWithin: boolean;
}

/** Measures the quiet service, then each attack, then several at once. */
export async function measureNeighbours(run: Run): Promise<NeighbourRow[]> {
  const bench = await NeighbourBench.open(run);
  const quiet = await bench.quietRow();
  const rows = [quiet];
  const only = run.options.attacks;
  for (const attack of ATTACKS) {
    if (only === null || only.has(attack.id))
      rows.push(await bench.attackRow(attack.id, attack.label, [attack], quiet));
  }
  const mixed = ATTACKS.filter(({ id }) => MIX.includes(id));
  for (const [id, by] of [
    ['mix', 'one tenant'],
    ['crowd', 'a tenant each'],
  ] as const) {
    if (only !== null && !only.has(id)) continue;
    rows.push(await bench.attackRow(id, `${mixed.length} of these at once, by ${by}`, mixed, quiet));
  }
  return rows;
}

class NeighbourBench {
  private constructor(
    readonly run: Run,
    readonly host: Host,
    readonly pid: number,
    readonly plan: Plan,
  ) {}

  static async open(run: Run): Promise<NeighbourBench> {
    const { scratch, cleanup, directory } = run;
    const own = { DATABASE_URL: scratch.service.url, REDIS_URL: scratch.redisUrl };
    const env = { ...serviceEnv(directory, { database: own.DATABASE_URL, redis: own.REDIS_URL }), ...RECEIVERS };
    const server = await startService(env, cleanup);
    // Here times count, not the processors' time: the service, Postgres and the clients run where there is room.
    for (const pid of [process.pid, server.pid]) unpin(pid);
    const host = { port: server.port, adminSecret: env.ADMIN_SECRET };
    const key = await createTenant(host.port, host.adminSecret, 'victim');
    const api = new Api(host.port, { key });
    const people = await createPeople(api, 10);
    await createItems(api, 'items');
    await api.importRecords('items', RECORDS, (at) => item(at, RECORDS, people));
    const ids = await api.sampleIds('items', RECORDS, 1_000);
    await scratch.vacuum();
    const plan = { port: host.port, key, ids, runMs: RUN_MS, perSecond: PER_SECOND };
    return new NeighbourBench(run, host, server.pid, plan);
  }

  async quietRow(): Promise<NeighbourRow> {
    await this.#suffer();
    const suffered = await this.#sufferRounds();
    const memory = residentMiB(this.pid);
    return { id: 'quiet', label: 'no attack', suffered, peakMiB: memory, afterMiB: memory, isWithin: true };
  }

  async attackRow(id: string, label: string, attacks: readonly Attack[], quiet: NeighbourRow): Promise<NeighbourRow> {
    this.run.log(`neighbours: ${id}`);
    const attackers: Attacker[] = [];
    try {
      const strikes: Strike[] = [];
      for (const attack of attacks) {
        if (attackers.length === 0 || id === 'crowd') {
          attackers.push(await Attacker.make(this.host, `attacker-${id}-${attackers.length}`));
        }
        strikes.push(await attack.prepare(attackers.at(-1) as Attacker));
      }
      const measured = await this.#underAttack(strikes);
      const row = { id, label, ...measured, statuses: statusesOf(attackers) };
      return { ...row, isWithin: measured.failure === undefined && isWithin(measured.suffered, quiet.suffered) };
    } catch (error) {
      return { id, label, failure: (error as Error).message, isWithin: false };
    } finally {
      for (const attacker of attackers) await attacker.remove();
    }
  }

  async #underAttack(strikes: readonly Strike[]) {
    const ended = new AbortController();
    let peakMiB = residentMiB(this.pid);
    const sampler = setInterval(() => {
      peakMiB = Math.max(peakMiB, residentMiB(this.pid));
    }, SAMPLE_MS);
    try {
      const struck = strikes.map((strike) => strike(ended.signal));
      await Bun.sleep(RAMP_MS);
      const suffered = await this.#sufferRounds();
      ended.abort();
      await Promise.all(struck);
      const failure = await this.#coolDown();
      return { suffered, peakMiB, afterMiB: residentMiB(this.pid), ...(failure === undefined ? {} : { failure }) };
    } finally {
      ended.abort();
      clearInterval(sampler);
    }
  }

  /** Waits until /health responds quickly several times in a row; resolves to the reason when it does not. */
  async #coolDown(): Promise<string | undefined> {
    let inARow = 0;
    const probe = async (): Promise<boolean> => {
      const begun = performance.now();
      const isHealthy = await fetch(`http://127.0.0.1:${this.host.port}/health`, {
        signal: AbortSignal.timeout(COOL_DOWN_MS),
      })
        .then((answer) => answer.arrayBuffer())
        .then(
          () => true,
          () => false,
        );
      inARow = isHealthy && performance.now() - begun < QUIET_MS ? inARow + 1 : 0;
      return inARow >= QUIET_PROBES;
    };
    return until('the service is quiet again', probe, COOL_DOWN_MS, SAMPLE_MS).then(
      () => undefined,
      (error: Error) => error.message,
    );
  }

  async #sufferRounds(): Promise<SufferedRounds> {
    const rounds: Suffered[] = [];
    for (let round = 0; round < ROUNDS; round++) rounds.push(await this.#suffer());
    return combine(rounds);
  }

  async #suffer(): Promise<Suffered> {
    const child = Bun.spawn([process.execPath, '--no-env-file', `${import.meta.dir}/victim.ts`], {
      stdin: new Blob([JSON.stringify(this.plan)]),
      // Its own session, so that its niceness counts.
      detached: true,
      stdout: 'pipe',
      stderr: 'inherit',
    });
    return JSON.parse(await new Response(child.stdout).text()) as Suffered;
  }
}

function combine(rounds: readonly Suffered[]): SufferedRounds {
  const all = (name: keyof Omit<Suffered, 'failures'>): number[] => rounds.map((round) => round[name]);
  const failures: Record<string, number> = {};
  for (const [what, times] of rounds.flatMap((round) => Object.entries(round.failures))) {
    failures[what] = (failures[what] ?? 0) + times;
  }
  return {
    requests: all('requests').reduce((sum, requests) => sum + requests, 0),
    failures,
    p50: median(all('p50')),
    p99: median(all('p99')),
    p99Lowest: Math.min(...all('p99')),
    p99Highest: Math.max(...all('p99')),
    max: median(all('max')),
    lateP99: median(all('lateP99')),
    health: Math.max(...all('health')),
    exportMs: Math.max(...all('exportMs')),
    definitionMs: Math.max(...all('definitionMs')),
  };
}

/** Receivers of the attacks' webhooks run on this machine; strangers have many addresses. */
const RECEIVERS = { WEBHOOK_ALLOWED_CIDRS: '127.0.0.0/8', TRUST_PROXY: '1' };

function isWithin(suffered: Suffered, quiet: Suffered | undefined): boolean {
  const bar = Math.max(BAR.atLeastMs, BAR.factor * (quiet?.p99 ?? 0));
  const { p99, failures, exportMs, definitionMs } = suffered;
  const isStarted = exportMs <= BAR.startMs && definitionMs <= BAR.startMs;
  return p99 <= bar && Object.keys(failures).length === 0 && isStarted;
}

function statusesOf(attackers: readonly Attacker[]): string {
  const sums = new Map<number, number>();
  for (const { statuses } of attackers) {
    for (const [status, count] of statuses) sums.set(status, (sums.get(status) ?? 0) + count);
  }
  return [...sums]
    .sort(([a], [b]) => a - b)
    .map(([status, count]) => `${count} x ${status || 'gone'}`)
    .join(', ');
}
