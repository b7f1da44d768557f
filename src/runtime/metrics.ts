// Metrics of the process, in the Prometheus text format 0.0.4 (prom-client): gauges and counters read on
// demand, histograms. Names end in their base unit, counters in `_total`; a duplicate name throws. With
// several processes on one port, each sample gets the label `process`. No metric names a record; those of tenants are
// in health/tenant-metrics.ts.
// Contract: decisions#metrics, neighbours#who-does-what.
import process from 'node:process';
import { AggregatorRegistry, Counter, Gauge, Histogram, type MetricObject, Registry } from 'prom-client';
import { waitingIn } from './concurrency.ts';
import { giveWay } from './event-loop.ts';
import type { Database } from './postgres.ts';

/** The boundaries recommended by OpenTelemetry for requests. */
const DURATION_BUCKETS_S = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];

/** Values that are formatted in one go, in 1 or 2 ms. */
const PIECE_VALUES = 500;

type QueueLength = () => number | Promise<number | null>;

export class Metrics {
  readonly registry = new Registry();
  readonly #queues = new Map<string, QueueLength>();
  /** Collects the snapshots of all processes on the port, by process number; null for a single process. */
  collectSnapshots: (() => Promise<ReadonlyMap<string, string>>) | null = null;

  /** A gauge read on demand. */
  gauge(name: string, help: string, read: () => number): void {
    const collect = function (this: Gauge): void {
      this.set(read());
    };
    new Gauge({ name, help, collect, registers: [this.registry] });
  }

  /** A gauge whose value is not always known; null shows none. */
  uncertainGauge(name: string, help: string, read: () => Promise<number | null>): void {
    const collect = async function (this: Gauge): Promise<void> {
      const value = await read();
      if (value === null) this.remove();
      else this.set(value);
    };
    new Gauge({ name, help, collect, registers: [this.registry] });
  }

  /** Shows a queue's length, in `svc_queue_length`; null shows none. */
  queue(name: string, length: QueueLength): void {
    if (this.#queues.size === 0) this.#registerQueues();
    this.#queues.set(name, length);
  }

  #registerQueues(): void {
    const queues = this.#queues;
    const collect = async function (this: Gauge<'queue'>): Promise<void> {
      const read = [...queues].map(async ([queue, length]) => ({ queue, length: await length() }));
      for (const { queue, length } of await Promise.all(read)) {
        if (length === null) this.remove({ queue });
        else this.set({ queue }, length);
      }
    };
    const help = 'Tasks that wait, by queue.';
    new Gauge({ name: 'svc_queue_length', help, labelNames: ['queue'], collect, registers: [this.registry] });
  }

  /** A counter kept elsewhere and read on demand. */
  counter(name: string, help: string, read: () => number): void {
    const collect = function (this: Counter): void {
      this.reset();
      this.inc(read());
    };
    new Counter({ name, help, collect, registers: [this.registry] });
  }

  /** A histogram of durations in seconds; an existing one is reused. Hot paths should keep the result of `labels`. */
  histogram<Label extends string>(name: string, help: string, labelNames: readonly Label[]): Histogram<Label> {
    const known = this.registry.getSingleMetric(name) as Histogram<Label> | undefined;
    return known ?? new Histogram({ name, help, labelNames, buckets: DURATION_BUCKETS_S, registers: [this.registry] });
  }

  /** The metrics of all processes on the port. */
  async render(): Promise<string> {
    return this.collectSnapshots === null ? textOf(this.registry) : renderSnapshots(await this.collectSnapshots());
  }

  /** The metrics of this process, for `renderSnapshots`. */
  async snapshot(): Promise<string> {
    return JSON.stringify(await this.registry.getMetricsAsJSON());
  }
}

/** Snapshots by process number as one text. */
export function renderSnapshots(snapshots: ReadonlyMap<string, string>): Promise<string> {
  const all = [...snapshots].map(([number, snapshot]) =>
    (JSON.parse(snapshot) as Snapshot[]).map(({ values, ...family }) => ({
      ...family,
      values: values.map((value) => ({ ...value, labels: { process: number, ...value.labels } })),
    })),
  );
  return textOf(AggregatorRegistry.aggregate(all));
}

/** A metric with its current values, as the library formats it. */
interface Family {
  values: readonly unknown[];
}
interface Readable {
  get(): Promise<Family>;
  getForPromString?(): Promise<Family>;
}

/** The text of `registry.metrics()` in pieces: with all routes and statuses, formatting it in one go takes 40 ms. */
async function textOf(registry: Registry): Promise<string> {
  const metrics = registry.getMetricsAsArray() as unknown as Readable[];
  // Not in the library's types.
  const formatting = registry as unknown as { getMetricsAsString(metric: Readable): Promise<string> };
  const families = await Promise.all(metrics.map((metric) => metric.getForPromString?.() ?? metric.get()));
  const texts: string[] = [];
  for (const family of families) {
    const { values } = family;
    const lines: string[] = [];
    for (let at = 0; at === 0 || at < values.length; at += PIECE_VALUES) {
      const piece = { ...family, values: values.slice(at, at + PIECE_VALUES) };
      const text = await formatting.getMetricsAsString({ get: async () => piece });
      // Each piece begins with its help and type.
      lines.push(at === 0 ? text : text.split('\n').slice(2).join('\n'));
      await giveWay();
    }
    texts.push(lines.join('\n'));
  }
  return `${texts.join('\n\n')}\n`;
}

type Snapshot = MetricObject & { values: { labels: Record<string, string> }[] };

/** Registers the metrics of the process and its database connections. */
export function registerProcessMetrics(metrics: Metrics, db: Pick<Database, 'stats'>): void {
  const startedAt = Date.now() / 1_000 - process.uptime();
  metrics.gauge('svc_db_pool_size', 'Connections to Postgres for requests.', () => db.stats().size);
  metrics.gauge('svc_db_pool_in_use', 'Connections to Postgres that requests hold.', () => db.stats().inUse);
  metrics.gauge('svc_db_pool_waiting', 'Calls that wait for a connection to Postgres.', () => db.stats().waiting);
  for (const pool of ['requests', 'slow', 'streams'] as const) metrics.queue(pool, () => db.stats(pool).waiting);
  for (const name of ['passwords', 'sign-ins', 'patterns', 'imports', 'large-calls']) {
    metrics.queue(name, () => waitingIn(name));
  }
  metrics.gauge('process_start_time_seconds', 'Start of the process, in Unix time.', () => startedAt);
  metrics.gauge('process_resident_memory_bytes', 'Resident memory.', () => process.memoryUsage().rss);
  metrics.gauge('process_heap_bytes', 'Memory of the JavaScript heap in use.', () => process.memoryUsage().heapUsed);
  metrics.counter('process_cpu_seconds_total', 'Processor time, user and system.', () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1e6;
  });
}
