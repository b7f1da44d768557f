// The command line of the fuzzer. Prints the seed, progress, each finding and the figures; exits 1 with findings.
// A finding names its round: `--seed <round> --requests 1000` repeats it, as far as timing allows.
// Without DATABASE_URL the service runs on the embedded database.
import { parseArgs } from 'node:util';
import { fuzz } from './run.ts';

const USAGE = `usage: ./scripts/fuzz [options]

  --requests <n>   how many requests (default 100000)
  --seed <n>       the seed (default: random, printed)
  --stall-ms <n>   a stall of the event loop that counts as a finding (default 50)

DATABASE_URL and REDIS_URL name the stores; without them the embedded ones are used.`;

const { values } = parseArgs({
  options: {
    requests: { type: 'string', default: '100000' },
    seed: { type: 'string', default: String(Math.floor(Math.random() * 2 ** 31)) },
    'stall-ms': { type: 'string', default: '50' },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  console.log(USAGE);
  process.exit(0);
}

const options = { seed: Number(values.seed), requests: Number(values.requests), stallMs: Number(values['stall-ms']) };
if (Object.values(options).some((value) => !Number.isSafeInteger(value) || value < 0)) {
  console.error(USAGE);
  process.exit(2);
}
console.log(`seed ${options.seed}`);
const startedAt = performance.now();
const report = await fuzz({
  ...options,
  onRound: (done, findings) => {
    for (const finding of findings) console.log(`- ${finding}`);
    if (done % 10_000 === 0) console.log(`${done} requests`);
  },
});
const seconds = Math.round((performance.now() - startedAt) / 1_000);
console.log(`${report.requests} requests over ${report.operations} operations in ${seconds} s`);
console.log(`statuses ${JSON.stringify(report.statuses)}`);
console.log(`longest stall ${Math.round(report.longestStallMs)} ms, findings ${report.findings.length}`);
process.exit(report.findings.length === 0 ? 0 : 1);
