// The command line of the fault run: how many faults of each kind. Counts and seconds. An unknown or malformed
// argument ends the run with a message that names it.

export interface Options {
  /** SIGKILLs of service processes. */
  kills: number;
  /** Redis emptied, and Redis killed and started anew: so many of each. */
  redis: number;
  /** Immediate stops of Postgres. */
  postgres: number;
  /** Times that some of the service's connections are ended by the server. */
  backends: number;
  /** Seconds that Redis is away in one piece. */
  outage: number;
}

const QUICK: Options = { kills: 8, redis: 2, postgres: 1, backends: 2, outage: 5 };
const FULL: Options = { kills: 200, redis: 20, postgres: 10, backends: 20, outage: 60 };

export const USAGE = `usage: ./scripts/faults [--full] [--kills ${QUICK.kills}] [--redis ${QUICK.redis}] [--postgres ${QUICK.postgres}]
                        [--backends ${QUICK.backends}] [--outage ${QUICK.outage}]
--full is ${Object.entries(FULL)
  .map(([name, count]) => `--${name} ${count}`)
  .join(' ')}`;

export function readOptions(argv: readonly string[]): Options {
  const options = { ...(argv.includes('--full') ? FULL : QUICK) };
  const rest = argv.filter((argument) => argument !== '--full');
  for (let at = 0; at < rest.length; at += 2) {
    const name = (rest[at] ?? '').replace(/^--/, '');
    const count = Number(rest[at + 1]);
    if (!(name in options) || !Number.isInteger(count) || count < 0) throw new Error(`${rest[at]}?\n${USAGE}`);
    options[name as keyof Options] = count;
  }
  return options;
}
