// The command line of the fault run: how many faults of each kind, and the length of the outage in seconds. An unknown or
// malformed option ends the run with a message that names it.
// `--full` replaces the counts of a quick run.

export interface Options {
  /** SIGKILLs of service processes. */
  kills: number;
  /** Each of: Redis emptied, Redis killed and restarted. */
  redis: number;
  /** Immediate stops of Postgres. */
  postgres: number;
  /** Terminations of some of the service's connections to Postgres. */
  backends: number;
  /** Seconds of one long outage of Redis. */
  outage: number;
}

const QUICK: Options = { kills: 8, redis: 2, postgres: 1, backends: 2, outage: 5 };
const FULL: Options = { kills: 200, redis: 20, postgres: 10, backends: 20, outage: 60 };

export const USAGE = `Usage: ./scripts/faults [options]

Kills or stops the service, Redis and Postgres while records are written, and counts what was acknowledged, delivered, lost and duplicated. Starts two
processes of the service and its own Postgres and Redis, whose server programs it needs. The exit code is 1 when anything
was lost, left out of a stream, or out of order.

Options, with the counts of a quick run and of --full:
  --kills N      kills of service processes; one in ten of both at once     ${columns('kills')}
  --redis N      each of: Redis emptied, Redis killed and restarted     ${columns('redis')}
  --postgres N   immediate stops of Postgres                            ${columns('postgres')}
  --backends N   terminations of some of the service's connections      ${columns('backends')}
  --outage N     seconds without Redis                                  ${columns('outage')}
  --full         the counts in the last column; later options override it
  --help         prints this`;

function columns(name: keyof Options): string {
  return [QUICK[name], FULL[name]].map((count) => String(count).padStart(5)).join('');
}

export function readOptions(argv: readonly string[]): Options {
  const options = { ...(argv.includes('--full') ? FULL : QUICK) };
  const rest = argv.filter((argument) => argument !== '--full');
  for (let at = 0; at < rest.length; at += 2) {
    const name = (rest[at] ?? '').replace(/^--/, '');
    const count = Number(rest[at + 1]);
    if (!(name in options) || !Number.isInteger(count) || count < 0) {
      throw new Error(`unknown or malformed option: ${rest.slice(at, at + 2).join(' ')}\n\n${USAGE}`);
    }
    options[name as keyof Options] = count;
  }
  return options;
}
