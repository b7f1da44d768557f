// The bench: creates databases, starts and fills both servers, measures the rows, prints the table.
// Exit code 0 when every row is within its `must` limit, 1 when one is not or cannot be measured, 2 when the bench cannot
// run, 130 and 143 after SIGINT and SIGTERM; it cleans up in each case.

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { measureAgainst } from './against-rows.ts';
import { fillBare } from './bare-store.ts';
import { bareWorkloads, otherBareWorkloads } from './bare-workloads.ts';
import { check, checkedCommit } from './check.ts';
import { pinSelf, startServer } from './children.ts';
import { Cleanup } from './cleanup.ts';
import { measureConsole } from './console.ts';
import { SAMPLE } from './dataset.ts';
import { measureEvents } from './events/events.ts';
import type { BareFixture } from './fixture.ts';
import { measureAlone } from './measure.ts';
import { measureNeighbours } from './neighbours/neighbours.ts';
import { type Options, readOptions, USAGE, wantsRecords } from './options.ts';
import { type Alone, alone, pgbenchRows } from './pgbench.ts';
import { plot } from './plot.ts';
import { json, type Measured, machineFacts, markdown, type Report } from './report.ts';
import { bareComparisons, type Comparison, measureRows, type Row } from './rows.ts';
import type { Run } from './run.ts';
import { openScratch, type Scratch } from './scratch.ts';
import { measureService } from './service-rows.ts';
import { measureTenants } from './tenant-rows.ts';
import { measureTransfer } from './transfer-gauges.ts';
import { figureVerdict, gaugeVerdict, progressLine, rowVerdict } from './verdict.ts';

const SIGNALS = { SIGINT: 130, SIGTERM: 143 } as const;
const NOTHING: Measured = { rows: [], figures: [], gauges: [], bare: [], soak: [] };

const cleanup = new Cleanup();
let stoppedBy: keyof typeof SIGNALS | undefined;
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    stoppedBy ??= signal;
    void cleanup.run().then(() => process.exit(SIGNALS[signal]));
  });
}
process.exit(process.argv.includes('--help') ? printUsage() : await main());

function printUsage(): number {
  console.log(USAGE);
  return 0;
}

/** After a signal, failures are caused by the clean-up and not reported. */
async function main(): Promise<number> {
  let code = 2;
  try {
    code = await bench(readOptions(process.argv.slice(2), process.env));
  } catch (error) {
    if (!stoppedBy) console.error(`bench: ${(error as Error).message}`);
  }
  await cleanup.run();
  return stoppedBy ? SIGNALS[stoppedBy] : code;
}

async function bench(options: Options): Promise<number> {
  const base = options.check === null ? null : checkedCommit(options.check, log);
  if (options.check !== null && base === null) return 0;
  const hasConsole = options.only?.has('console') ?? false;
  // A browser needs more than one core.
  if (!hasConsole) pinSelf();
  const directory = await mkdtemp(join(tmpdir(), 'svc-bench-'));
  cleanup.later('remove the work directory', () => rm(directory, { recursive: true, force: true }));
  const scratch = await openScratch(options, cleanup);
  const run: Run = { options, scratch, directory, cleanup, log };
  const measured = base === null ? await measure(run) : { ...NOTHING, rows: await check(run, base) };
  const neighbours = options.only?.has('neighbours') ? await measureNeighbours(run) : [];
  const report: Report = { options, scratch, neighbours, ...measured };
  if (stoppedBy) return SIGNALS[stoppedBy];
  console.log(markdown(report));
  if (options.json) await writeFile(options.json, json(report));
  if (options.plot) await writeFile(options.plot, plot(report.rows, machineFacts(report)));
  return isWithinLimits(report) ? 0 : 1;
}

async function measure(run: Run): Promise<Measured> {
  const { options } = run;
  const records = wantsRecords(options) ? await measureRecords(run) : NOTHING;
  const events = options.events ? await measureEvents(run, options.events) : NOTHING;
  const tenants = options.tenants ? await measureTenants(run, options.tenants) : NOTHING;
  const transfer = options.transfer ? await measureTransfer(run, options.transfer) : NOTHING;
  const page = options.only?.has('console') ? await measureConsole(run) : [];
  return {
    ...records,
    rows: [...records.rows, ...tenants.rows],
    figures: [...records.figures, ...events.figures],
    gauges: [...records.gauges, ...tenants.gauges, ...transfer.gauges, ...events.gauges, ...page],
  };
}

/** Measures the rows that need the filled tables. */
async function measureRecords(run: Run): Promise<Measured> {
  const { options, scratch, directory } = run;
  if (options.against !== null) return { ...NOTHING, rows: await measureAgainst(run, options.against) };
  const bare = await startBare(options, scratch, directory);
  if (options.self) return { ...NOTHING, rows: await measureSelf(bare, options, scratch, directory) };
  return { ...(await measureService({ ...run, bare })), bare: await measureBare(run, bare) };
}

function log(line: string): void {
  if (!stoppedBy) console.error(line);
}

async function startBare(options: Options, scratch: Scratch, directory: string): Promise<BareFixture> {
  log(`filling the bare tables with 2 x ${options.records} records`);
  const { people, ids } = await fillBare(scratch.bare.url, options.records, SAMPLE);
  const server = await bareServer(scratch, join(directory, 'bare.log'));
  return { server, url: scratch.bare.url, records: options.records, people, ids };
}

async function bareServer(scratch: Scratch, logFile: string): Promise<BareFixture['server']> {
  const server = await startServer('scripts/benchmark/bare.ts', { DATABASE_URL: scratch.bare.url }, logFile, cleanup);
  return { pid: server.pid, port: server.port, database: scratch.bare.database };
}

/** The bare handler against a second instance on the same tables: the noise of the harness. */
async function measureSelf(bare: BareFixture, options: Options, scratch: Scratch, directory: string): Promise<Row[]> {
  const second = { ...bare, server: await bareServer(scratch, join(directory, 'second.log')) };
  await scratch.vacuum();
  const comparisons = bareComparisons(bareWorkloads(bare, options.seconds), bareWorkloads(second, options.seconds));
  return measureRows(chosen(comparisons, options), options, scratch, (row) => log(progressLine(row)));
}

async function measureBare(run: Run, bare: BareFixture): Promise<Alone[]> {
  const { options, scratch } = run;
  if (options.only && !options.only.has('bare')) return [];
  const measured: Alone[] = [];
  for (const { label, workload } of otherBareWorkloads(bare)) {
    measured.push(await alone(label, () => measureAlone(workload, { ...options, rounds: 1 }, scratch)));
  }
  return [...measured, ...(await pgbenchRows(run, bare))];
}

function chosen(comparisons: readonly Comparison[], options: Options): readonly Comparison[] {
  return comparisons.filter(({ id }) => options.only?.has(id) ?? true);
}

function isWithinLimits({ rows, figures, gauges, neighbours }: Report): boolean {
  const verdicts = [...rows.map(rowVerdict), ...figures.map(figureVerdict), ...gauges.map(gaugeVerdict)];
  return (
    verdicts.every((verdict) => verdict !== 'MISSED' && verdict !== 'FAILED') &&
    neighbours.every(({ isWithin }) => isWithin)
  );
}
