// What the process counts and measures, and its text for Prometheus (format 0.0.4): counters, gauges
// that are read when asked, histograms. Names end in their base unit; counters in `_total`. A name
// taken twice is a mistake and throws. Nothing here may be told of a tenant or a record.
// Contract: decisions#metrics.

/** Label values, in the order of the metric's label names. */
type Values = readonly string[];

interface Family {
  name: string;
  help: string;
  type: 'counter' | 'gauge' | 'histogram';
  lines(): string[];
}

/** Seconds; the boundaries that OpenTelemetry advises for requests. */
const DURATION_BOUNDS: readonly number[] = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];

export class Metrics {
  readonly #families = new Map<string, Family>();
  readonly #histograms = new Map<string, Histogram>();

  /** A number that only grows; `name` ends in `_total`. */
  counter(name: string, help: string, labels: readonly string[] = []): Counter {
    const counter = new Counter();
    const lines = () => [...counter.series.values()].map(({ values, n }) => `${name}${braced(labels, values)} ${n}`);
    this.#add({ name, help, type: 'counter', lines });
    return counter;
  }

  /** A number that is read whenever the text is asked for. */
  gauge(name: string, help: string, read: () => number): void {
    this.#add({ name, help, type: 'gauge', lines: () => [`${name} ${read()}`] });
  }

  /** A counter that is kept elsewhere and read when asked for. */
  readCounter(name: string, help: string, read: () => number): void {
    this.#add({ name, help, type: 'counter', lines: () => [`${name} ${read()}`] });
  }

  /** How often values fell where, in base units. One asked for again is the same. */
  histogram(name: string, help: string, labels: readonly string[], bounds = DURATION_BOUNDS): Histogram {
    const known = this.#histograms.get(name);
    if (known !== undefined) return known;
    const histogram = new Histogram(bounds);
    const lines = () => histogram.all.flatMap((series) => series.lines(name, labels));
    this.#add({ name, help, type: 'histogram', lines });
    this.#histograms.set(name, histogram);
    return histogram;
  }

  /** Asks every process that shares this one's port for its text, by number; null where there is one process. */
  siblings: (() => Promise<ReadonlyMap<string, string>>) | null = null;

  /** Everything as text, of all processes that share the port: each sample then has its process as a label. */
  async gather(): Promise<string> {
    return this.siblings === null ? this.render() : merged(await this.siblings());
  }

  /** Everything of this process as text. */
  render(): string {
    const text = [...this.#families.values()].flatMap(({ name, help, type, lines }) => [
      `# HELP ${name} ${help}`,
      `# TYPE ${name} ${type}`,
      ...lines(),
    ]);
    return `${text.join('\n')}\n`;
  }

  #add(family: Family): void {
    if (this.#families.has(family.name)) throw new Error(`two metrics are named ${family.name}`);
    this.#families.set(family.name, family);
  }
}

/** One text of several processes': each family once, its samples told apart by the label `process`. */
export function merged(texts: ReadonlyMap<string, string>): string {
  const families = new Map<string, string[]>();
  for (const [number, text] of texts) {
    let samples: string[] = [];
    for (const line of text.trimEnd().split('\n')) {
      if (line.startsWith('# HELP ')) {
        samples = families.get(line) ?? [];
        families.set(line, samples);
      } else if (!line.startsWith('# TYPE ')) samples.push(labelled(line, number));
      else if (samples.length === 0) samples.push(line);
    }
  }
  return `${[...families].flatMap(([help, samples]) => [help, ...samples]).join('\n')}\n`;
}

function labelled(sample: string, number: string): string {
  return sample.replace(/^(\w+)(?:\{| )/, (start, name) =>
    start.endsWith('{') ? `${name}{process="${number}",` : `${name}{process="${number}"} `,
  );
}

export class Counter {
  readonly series = new Map<string, { values: Values; n: number }>();

  add(n = 1, ...values: string[]): void {
    const key = values.join('\n');
    const series = this.series.get(key);
    if (series === undefined) this.series.set(key, { values, n });
    else series.n += n;
  }
}

export class Histogram {
  readonly #series = new Map<string, Series>();

  constructor(readonly bounds: readonly number[]) {}

  get all(): Series[] {
    return [...this.#series.values()];
  }

  /** The series of these label values; keep it, where it is observed often. */
  series(...values: string[]): Series {
    const key = values.join('\n');
    const series = this.#series.get(key) ?? new Series(this.bounds, values);
    this.#series.set(key, series);
    return series;
  }
}

export class Series {
  readonly #counts: number[];
  #sum = 0;

  constructor(
    private readonly bounds: readonly number[],
    private readonly values: Values,
  ) {
    this.#counts = new Array<number>(bounds.length + 1).fill(0);
  }

  observe(value: number): void {
    const { bounds } = this;
    let at = 0;
    while (at < bounds.length && value > (bounds[at] as number)) at++;
    this.#counts[at] = (this.#counts[at] as number) + 1;
    this.#sum += value;
  }

  lines(name: string, labels: readonly string[]): string[] {
    let count = 0;
    const buckets = this.#counts.map((n, i) => {
      count += n;
      const le = i < this.bounds.length ? String(this.bounds[i]) : '+Inf';
      return `${name}_bucket${braced([...labels, 'le'], [...this.values, le])} ${count}`;
    });
    const own = braced(labels, this.values);
    return [...buckets, `${name}_sum${own} ${this.#sum}`, `${name}_count${own} ${count}`];
  }
}

function braced(labels: readonly string[], values: Values): string {
  if (labels.length === 0) return '';
  return `{${labels.map((label, i) => `${label}="${escaped(values[i] ?? '')}"`).join(',')}}`;
}

function escaped(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n');
}
