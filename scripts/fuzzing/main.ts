// The command line of the fuzzer. Prints the seed, progress, each finding and the figures; exits 1 with findings.
// A finding names its round: `--seed <round> --requests 500` repeats it, as far as timing allows.
// Without DATABASE_URL the service runs on the embedded database.
import { parseArgs } from 'node:util';
import { fuzz } from './run.ts';

const USAGE = `usage: ./scripts/fuzz [options]

  --requests <n>   how many requests (default 100000)
  --seed <n>       the seed (default: random, printed)
  --stall-ms <n>   a stall of the event loop that counts as a finding, in CPU time of its thread (default 50)
  --missing        also print which operations have never succeeded, and for which kinds of credential

DATABASE_URL and REDIS_URL name the stores; without them the embedded ones are used. With SERVICE_RUNTIME=bun the service is a
process of its own, whose stalls are not mixed with the fuzzer's, and with SERVICE_RUNTIME=deno one under Deno.`;

const { values } = parseArgs({
  options: {
    requests: { type: 'string', default: '100000' },
    seed: { type: 'string', default: String(Math.floor(Math.random() * 2 ** 31)) },
    'stall-ms': { type: 'string', default: '50' },
    missing: { type: 'boolean', default: false },
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
const failed = (error: unknown): never => {
  console.error('the run has failed', error);
  process.exit(3);
};
const report = await fuzz({
  ...options,
  onRound: (done, findings, leftOut) => {
    for (const finding of findings) console.log(`- ${finding}`);
    for (const unavailable of leftOut) console.log(`- without a core, no finding: ${unavailable}`);
    if (done % 10_000 === 0) console.log(`${done} requests`);
  },
}).catch(failed);
const seconds = Math.round((performance.now() - startedAt) / 1_000);
const { allowed, reached, missing } = report.coverage;
console.log(`${report.requests} requests in ${seconds} s`);
console.log(`statuses ${JSON.stringify(report.statuses)}`);
console.log(`${reached} of ${allowed} pairs of an operation and a kind of credential that may call it have succeeded`);
if (values.missing) {
  for (const [operation, kinds] of Object.entries(missing)) {
    console.log(`  ${operation}: ${kinds}`);
    const reasons = Object.entries(report.refusals[operation] ?? {}).sort(([, a], [, b]) => b - a);
    for (const [reason, times] of reasons.slice(0, 4)) console.log(`      ${times} x ${reason}`);
  }
}
const { cpuMs, wallMs, collectionMs } = report.longestStall;
console.log(`longest stall ${Math.round(cpuMs)} ms (by the clock ${Math.round(wallMs)} ms)`);
console.log(`longest collection of garbage ${Math.round(collectionMs)} ms`);
console.log(`503 without a core ${report.leftOut.length}`);
console.log(`findings ${report.findings.length}`);
process.exit(report.findings.length === 0 ? 0 : 1);
