// The command line of the bench: what to measure, how long, against which servers.
// Units: seconds per measured round, counts of records. An unknown or malformed argument ends the run with a
// message that names it.

/** The rows of the operations that exist on both sides, by their names in `--only`. */
export const OPERATIONS = [
  'get',
  'list',
  'sortCreated',
  'sortUpdated',
  'sortIndexed',
  'sortTwo',
  'sortUnindexed',
  'filter',
  'filterCold',
  'filterSorted',
  'page',
  'searchRare',
  'searchCommon',
  'related',
  'create',
  'update',
  'delete',
  'mixed',
] as const;

/** The groups of rows about events, in the order in which they run: `idle` comes last, because it replaces the process. */
export const EVENT_GROUPS = [
  'latency',
  'fan-out',
  'feed',
  'quiet',
  'delivery',
  'matching',
  'black-holes',
  'backlog',
  'idle',
] as const;

/** Other groups of rows, gauges, and what is shown for orientation: the bare handler's other ways to list, pgbench. */
const GROUPS = [
  'role',
  'credentials',
  'view',
  'scale',
  'history',
  'tenants',
  'transfer',
  'import',
  'start',
  'soak',
  'bare',
  'events',
  'neighbours',
  'console',
] as const;

export interface Options {
  records: number;
  rounds: number;
  seconds: number;
  connections: number;
  only: Set<string> | null;
  /** Records of the large entity of the scale rows, or null to leave those rows out. */
  scale: number | null;
  /** Events among which a record's history is read, or null to leave those rows out. */
  history: number | null;
  /** Numbers of tenants of the many-tenants rows, ascending, or null to leave those rows out. */
  tenants: readonly number[] | null;
  /** Records of the tenant that is exported and imported, or null to leave that out. */
  transfer: number | null;
  /** Deliveries of the backlog to drain, or null to leave out all rows about events. */
  events: number | null;
  /** Minutes of the mixed load, or null to leave it out. */
  soak: number | null;
  json: string | null;
  /** The file of the plot. */
  plot: string | null;
  /** The commit to compare with, '' for the one that fits; null when nothing is to be checked. */
  check: string | null;
  /** The attacks of the rows about neighbours, by their names; null for all. */
  attacks: Set<string> | null;
  /** Compare the bare handler with a second instance of it: the distance of the ratios from 1.0 is the noise. */
  self: boolean;
  /** Another checkout of this project to compare the service with, instead of the bare handler. */
  against: string | null;
  databaseUrl: string;
  redisUrl: string;
}

const NUMBERS = { '--records': 100_000, '--rounds': 5, '--seconds': 3, '--connections': 16 } as const;
/** Of `--check`: short, since every run of CI pays for it; an even number of rounds, so that each side begins as often. */
const CHECK_NUMBERS = { ...NUMBERS, '--records': 5_000, '--rounds': 4, '--seconds': 0.5 };
const OPTIONAL_NUMBERS = {
  '--scale': 1_000_000,
  '--history': 1_000_000,
  '--transfer': 1_000_000,
  '--events': 10_000,
  '--soak': 10,
} as const;
const DEFAULT_TENANTS = '1,100,1000';
const TEXTS = ['--only', '--json', '--plot', '--against', '--attacks'] as const;
/** Those whose value may be left out. */
const OPTIONAL: readonly string[] = [...Object.keys(OPTIONAL_NUMBERS), '--tenants', '--check'];
const NAMES_INDENT = 20;
const NAME_COLUMNS = 90;

export const USAGE = `Usage: ./scripts/bench [options]

Compares the service with a bare handler on the same Postgres and Redis, and prints a table of CPU and ratios. DATABASE_URL
and REDIS_URL name the servers (default: 127.0.0.1); the bench creates its own databases and drops them. The exit code is 1
when a row exceeds its limit, 2 when the bench cannot run.

With --check, it compares the service with that of an earlier commit instead, on small entities and in short rounds. The exit
code is 1 when a row needs over 1.25 times the CPU of before, and does so again when it is measured twice more.

Options:
  --records N       records in each table (100000)
  --rounds N        paired rounds; the table shows medians, and the median of their ratios (5)
  --seconds N       seconds per round (3)
  --connections N   connections of the load generator (16)
  --only NAME,...   only these rows or groups:
                    ${wrapped([...OPERATIONS, ...GROUPS, ...EVENT_GROUPS])}
  --scale [N]       also compare a small entity with one of N records (1000000)
  --history [N]     also read the history of a record among N events (1000000)
  --tenants [N,...] also compare one tenant with N tenants, for each N (1,100,1000)
  --transfer [N]    also export and import a tenant with N records (1000000)
  --events [N]      also measure events; drain a backlog of N deliveries (10000)
  --soak [MINUTES]  also run the mixed load for that long and compare its end with its beginning (10)
  --attacks NAME,... with --only neighbours: only these attacks
  --json FILE       also write the result as JSON
  --plot FILE       also draw the ratios, as SVG
  --self            compare the bare handler with itself: shows the noise
  --against DIR     compare the service with that of another checkout, instead of the bare handler
  --check [COMMIT]  fail when a row got slower than at COMMIT (the last that changed scripts/benchmark/ratios.json)
  --help            prints this`;

function wrapped(names: readonly string[]): string {
  const lines = [''];
  for (const name of names) {
    if (`${lines.at(-1)} ${name}`.length > NAME_COLUMNS) lines.push('');
    lines.push(`${lines.pop()} ${name}`.trimStart());
  }
  return lines.join(`\n${' '.repeat(NAMES_INDENT)}`);
}

/** Reads the arguments and the environment; throws an Error whose message names the argument that is wrong. */
export function readOptions(argv: readonly string[], env: Record<string, string | undefined>): Options {
  const given = readArguments(argv);
  const numbers = given.has('--check') ? CHECK_NUMBERS : NUMBERS;
  const number = (name: keyof typeof NUMBERS) => positive(name, given.get(name) ?? String(numbers[name]));
  const only = given.has('--only') ? readNames(given.get('--only') ?? '') : null;
  const wantsEvents = EVENT_GROUPS.some((group) => only?.has(group));
  const optional = (name: keyof typeof OPTIONAL_NUMBERS) => {
    const isWanted = given.has(name) || only?.has(name.slice(2));
    if (isWanted) only?.add(name.slice(2));
    return isWanted ? positive(name, given.get(name) || String(OPTIONAL_NUMBERS[name])) : null;
  };
  const events = wantsEvents
    ? positive('--events', given.get('--events') || String(OPTIONAL_NUMBERS['--events']))
    : null;
  return {
    records: number('--records'),
    rounds: number('--rounds'),
    seconds: number('--seconds'),
    connections: number('--connections'),
    only,
    scale: optional('--scale'),
    history: optional('--history'),
    tenants: readTenants(given, only),
    transfer: optional('--transfer'),
    events: events ?? optional('--events'),
    soak: optional('--soak'),
    json: given.get('--json') ?? null,
    plot: given.get('--plot') ?? null,
    check: given.get('--check') ?? null,
    attacks: given.has('--attacks') ? new Set(given.get('--attacks')?.split(',')) : null,
    self: given.has('--self'),
    against: given.get('--against') ?? null,
    databaseUrl: env.DATABASE_URL ?? 'postgres://postgres@127.0.0.1:5432/postgres',
    redisUrl: env.REDIS_URL ?? 'redis://127.0.0.1:6379',
  };
}

/** The numbers of tenants, ascending; null when these rows are not wanted. */
function readTenants(given: ReadonlyMap<string, string>, only: Set<string> | null): number[] | null {
  if (!given.has('--tenants') && !only?.has('tenants')) return null;
  only?.add('tenants');
  const counts = (given.get('--tenants') || DEFAULT_TENANTS).split(',').map((count) => positive('--tenants', count));
  return counts.sort((a, b) => a - b);
}

function readArguments(argv: readonly string[]): Map<string, string> {
  const given = new Map<string, string>();
  for (let at = 0; at < argv.length; at++) {
    const name = argv[at] as string;
    const next = argv[at + 1];
    const hasValue = next !== undefined && !next.startsWith('--');
    if (name === '--self') {
      given.set(name, '');
      continue;
    }
    if (OPTIONAL.includes(name)) given.set(name, hasValue ? next : '');
    else if (hasValue && (name in NUMBERS || TEXTS.some((text) => text === name))) given.set(name, next);
    else throw new Error(`${name}: unknown, or without its value\n\n${USAGE}`);
    if (hasValue) at++;
  }
  return given;
}

/** Whether a chosen row needs the filled tables. */
export function wantsRecords({ only }: Options): boolean {
  const others: readonly string[] = ['events', 'neighbours', 'tenants', 'transfer', 'console', ...EVENT_GROUPS];
  return only === null || [...only].some((name) => !others.includes(name));
}

/** Names of rows, or of groups of rows. */
function readNames(text: string): Set<string> {
  const known: readonly string[] = [...OPERATIONS, ...GROUPS, ...EVENT_GROUPS];
  const names = text.split(',');
  const unknown = names.find((name) => !known.includes(name));
  if (unknown !== undefined) throw new Error(`--only: ${unknown} is not one of ${known.join(', ')}`);
  return new Set(names);
}

function positive(name: string, text: string): number {
  const value = Number(text);
  if (!(value > 0)) throw new Error(`${name}: ${text} is not a positive number\n\n${USAGE}`);
  return value;
}
