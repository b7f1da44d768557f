// The victim of the rows about neighbours, a separate process: reads and writes of one tenant at a fixed rate, whether or
// not earlier ones have finished, plus a probe of /health, one export and one definition change. Reads a Plan (JSON) from
// standard input and prints a Suffered (JSON). Times in milliseconds, from when a request was due to the end of its response,
// so that one that is sent late counts as late. The victim's client stands for one on another machine: its process goes
// before the attacker's, which would take the processor from it.

import { setNiceness } from '../../../src/serve/priority.ts';
import { statusOf } from '../dataset.ts';

export interface Plan {
  port: number;
  key: string;
  /** Records of `items` to read and change. */
  ids: string[];
  runMs: number;
  perSecond: number;
}

export interface Suffered {
  requests: number;
  /** Responses other than 2xx, and broken connections, with their count. */
  failures: Record<string, number>;
  p50: number;
  p99: number;
  max: number;
  /** By how much the victim itself sent late: the p99, which its own figures contain. */
  lateP99: number;
  /** The slowest response of /health. */
  health: number;
  /** Until an export of one record has ended, and until an index was created. */
  exportMs: number;
  definitionMs: number;
}

const PATH = '/api/entities/items/records';
const FIELDS = '/api/entities/items/fields';
const PROBE_MS = 50;
const WARM_UP_CALLS = 60;
/** When, as a share of the run, the export and the definition change start. */
const SLOW_CALLS_AT = 0.3;
const GIVE_UP_MS = 30_000;

/** Only the superuser may have a negative one. */
const NICENESS = -15;

/** Eight reads and two writes in turn. */
const MIX = ['get', 'list', 'get', 'create', 'get', 'filter', 'get', 'update', 'list', 'get'] as const;

class Victim {
  readonly #latencies: number[] = [];
  readonly #late: number[] = [];
  readonly #failures: Record<string, number> = {};
  #health = 0;
  /** The field that the definition change has added. */
  #added: string | undefined;
  #sent = 0;

  constructor(readonly plan: Plan) {}

  async run(): Promise<Suffered> {
    const { runMs, perSecond } = this.plan;
    await this.#warmUp();
    const begun = performance.now();
    const calls: Promise<unknown>[] = [];
    const probe = setInterval(() => calls.push(this.#probe()), PROBE_MS);
    const slow = Bun.sleep(runMs * SLOW_CALLS_AT).then(() => Promise.all([this.#export(), this.#changeDefinition()]));
    while (performance.now() - begun < runMs) {
      const due = Math.floor(((performance.now() - begun) / 1_000) * perSecond);
      while (this.#sent < due) calls.push(this.#next(begun + ((this.#sent + 1) * 1_000) / perSecond));
      await Bun.sleep(1);
    }
    clearInterval(probe);
    const [exportMs, definitionMs] = await slow;
    await Promise.all(calls);
    // With a field more after each row, later rows would be slower.
    if (this.#added !== undefined) await this.#send('DELETE', this.#added);
    return this.#summary(exportMs, definitionMs);
  }

  /** A client that has just started is slow by itself: its connections are not open, its code is not compiled. */
  async #warmUp(): Promise<void> {
    const calls: Promise<void>[] = [];
    for (const id of this.plan.ids.slice(0, WARM_UP_CALLS)) {
      calls.push(this.#send('GET', `${PATH}/${id}`));
      await Bun.sleep(1_000 / this.plan.perSecond);
    }
    await Promise.all(calls);
  }

  async #next(dueAt: number): Promise<void> {
    const { ids } = this.plan;
    const at = this.#sent++;
    const operation = MIX[at % MIX.length] as (typeof MIX)[number];
    const id = ids[(at * 31) % ids.length];
    this.#late.push(performance.now() - dueAt);
    if (operation === 'get') await this.#send('GET', `${PATH}/${id}`);
    if (operation === 'list') await this.#send('GET', PATH);
    if (operation === 'filter') await this.#send('GET', `${PATH}?filters=status%20%3D%20open&count=none`);
    if (operation === 'create')
      await this.#send('POST', PATH, { title: `Item ${at}`, status: statusOf(at), amount: at });
    if (operation === 'update') await this.#send('PATCH', `${PATH}/${id}`, { price: at });
    this.#latencies.push(performance.now() - dueAt);
  }

  async #probe(): Promise<void> {
    const begun = performance.now();
    await this.#send('GET', '/health');
    this.#health = Math.max(this.#health, performance.now() - begun);
  }

  async #export(): Promise<number> {
    const begun = performance.now();
    await this.#send('GET', `${PATH}/export?format=ndjson&filters=amount%20%3D%201`);
    return performance.now() - begun;
  }

  async #changeDefinition(): Promise<number> {
    const begun = performance.now();
    const key = `extra${Date.now()}`;
    await this.#send('POST', FIELDS, { key, type: 'integer', indexed: true });
    this.#added = `${FIELDS}/${key}?confirm=${key}`;
    return performance.now() - begun;
  }

  async #send(method: string, path: string, body?: unknown): Promise<void> {
    try {
      const answer = await fetch(`http://127.0.0.1:${this.plan.port}${path}`, {
        method,
        headers: { authorization: `Bearer ${this.plan.key}`, 'content-type': 'application/json' },
        signal: AbortSignal.timeout(GIVE_UP_MS),
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      await answer.arrayBuffer();
      if (!answer.ok)
        this.#fail(`${answer.status} on ${method} ${path.split('?')[0]?.replace(/[0-9a-f-]{36}/, ':id')}`);
    } catch (error) {
      this.#fail((error as Error).name);
    }
  }

  #fail(what: string): void {
    this.#failures[what] = (this.#failures[what] ?? 0) + 1;
  }

  #summary(exportMs: number, definitionMs: number): Suffered {
    const latencies = this.#latencies;
    return {
      requests: latencies.length,
      failures: this.#failures,
      p50: quantile(latencies, 0.5),
      p99: quantile(latencies, 0.99),
      max: quantile(latencies, 1),
      lateP99: quantile(this.#late, 0.99),
      health: this.#health,
      exportMs,
      definitionMs,
    };
  }
}

function quantile(values: readonly number[], share: number): number {
  const sorted = Float64Array.from(values).sort();
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

/** Best effort: without the right, the attacker's load on this processor is in the victim's figures. */
function preferThisProcess(): void {
  try {
    setNiceness(NICENESS);
  } catch {
    console.error('the victim has no right to a negative niceness: its figures contain the load of the attacker');
  }
}

if (import.meta.main) {
  preferThisProcess();
  console.log(JSON.stringify(await new Victim((await Bun.stdin.json()) as Plan).run()));
  process.exit(0);
}
