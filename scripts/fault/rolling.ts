// A rolling restart under write load: two processes are replaced one after the other, on a private Postgres and Redis.
// The first argument is the number of rounds (10 by default). Prints the ledger as JSON; the exit code is 1 when a write
// failed or an event was lost.
// Contract: decisions#shutdown, decisions#events.
import process from 'node:process';
import { privatePostgres, privateRedis } from '../../test/support/private-servers.ts';
import { rollingRestart } from '../../test/support/rolling.ts';
import { endAll } from '../../test/support/started.ts';

const rounds = Number(process.argv[2] ?? 10);
const postgres = await privatePostgres();
const redis = await privateRedis();
if (postgres === undefined || redis === undefined) throw new Error('this needs the programs of Postgres and Redis');
const environment = { DATABASE_URL: postgres.url, REDIS_URL: redis.url };
const ledger = await rollingRestart({ environment, processes: 2, rounds, writers: 6, steadyMs: 1_500 });
console.log(JSON.stringify(ledger));
await endAll();
await Promise.all([postgres.remove(), redis.remove()]);
const isGood =
  ledger.failed.length + ledger.lost + ledger.unstreamed === 0 && ledger.exitCodes.every((code) => code === 0);
process.exit(isGood ? 0 : 1);
