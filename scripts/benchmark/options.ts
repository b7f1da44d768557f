// The command line of the bench: what to measure, how long, against which servers.
// Units: seconds per measured round, counts of records. An unknown or malformed argument ends the run with a
// message that names it.

import { EVENT_GROUPS } from './events/events.ts';
import { OPERATIONS } from './world.ts';

/** What else can be chosen: further rows, gauges, and the bare handler's other ways of listing. */
const GROUPS = ['role', 'credentials', 'view', 'scale', 'tenants', 'import', 'start', 'bare', 'events'] as const;

export interface Options {
  records: number;
  rounds: number;
  seconds: number;
  connections: number;
  only: Set<string> | null;
  /** Records of the large entity of the scale rows, or null to leave those rows out. */
  scale: number | null;
  /** Tenants of the many-tenants rows, or null to leave those rows out. */
  tenants: number | null;
  /** Deliveries of the backlog to drain, or null to leave everything about events out. */
  events: number | null;
  json: string | null;
  /** The bare handler against a second one of itself: how far the ratios are off 1.0 is the noise. */
  self: boolean;
  databaseUrl: string;
  redisUrl: string;
}

const NUMBERS = { '--records': 100_000, '--rounds': 5, '--seconds': 3, '--connections': 16 } as const;
const OPTIONAL_NUMBERS = { '--scale': 1_000_000, '--tenants': 1_000, '--events': 10_000 } as const;
const TEXTS = ['--only', '--json'] as const;

export const USAGE = `usage: ./scripts/bench [--records 100000] [--rounds 5] [--seconds 3] [--connections 16]
                       [--only get,list,...] [--scale [1000000]] [--tenants [1000]] [--events [10000]]
                       [--json file] [--self]`;

/** Reads the arguments and the environment; throws an Error whose message names the argument that is wrong. */
export function readOptions(argv: readonly string[], env: Record<string, string | undefined>): Options {
  const given = readArguments(argv);
  const number = (name: keyof typeof NUMBERS) => positive(name, given.get(name) ?? String(NUMBERS[name]));
  const only = given.has('--only') ? readNames(given.get('--only') ?? '') : null;
  const isOfEvents = EVENT_GROUPS.some((group) => only?.has(group));
  const optional = (name: keyof typeof OPTIONAL_NUMBERS) => {
    const isWanted = given.has(name) || only?.has(name.slice(2));
    if (isWanted) only?.add(name.slice(2));
    return isWanted ? positive(name, given.get(name) || String(OPTIONAL_NUMBERS[name])) : null;
  };
  const events = isOfEvents
    ? positive('--events', given.get('--events') || String(OPTIONAL_NUMBERS['--events']))
    : null;
  return {
    records: number('--records'),
    rounds: number('--rounds'),
    seconds: number('--seconds'),
    connections: number('--connections'),
    only,
    scale: optional('--scale'),
    tenants: optional('--tenants'),
    events: events ?? optional('--events'),
    json: given.get('--json') ?? null,
    self: given.has('--self'),
    databaseUrl: env.DATABASE_URL ?? 'postgres://postgres@127.0.0.1:5432/postgres',
    redisUrl: env.REDIS_URL ?? 'redis://127.0.0.1:6379',
  };
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
    if (name in OPTIONAL_NUMBERS) given.set(name, hasValue ? next : '');
    else if (hasValue && (name in NUMBERS || TEXTS.some((text) => text === name))) given.set(name, next);
    else throw new Error(`${name}: unknown, or without its value\n${USAGE}`);
    if (hasValue) at++;
  }
  return given;
}

/** Whether anything is asked for that needs the filled tables. */
export function wantsRecords({ only }: Options): boolean {
  return only === null || [...only].some((name) => name !== 'events' && !EVENT_GROUPS.includes(name));
}

/** Names of rows, or of groups of rows. */
function readNames(text: string): Set<string> {
  const known: readonly string[] = [...OPERATIONS, ...GROUPS, ...EVENT_GROUPS];
  const names = text.split(',');
  const unknown = names.find((name) => !known.includes(name));
  if (unknown !== undefined) throw new Error(`--only: ${unknown} is none of ${known.join(', ')}`);
  return new Set(names);
}

function positive(name: string, text: string): number {
  const value = Number(text);
  if (!(value > 0)) throw new Error(`${name}: ${text} is not a positive number\n${USAGE}`);
  return value;
}
