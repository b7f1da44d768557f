// What Postgres does without any service, for orientation: pgbench with prepared statements on the tables of the bare
// handler, a select by id and an insert of one record. CPU of pgbench itself stands where a server's would.
// Times in milliseconds. Without pgbench on this machine, the rows say so.

import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CpuMeter } from './cpu.ts';
import { item } from './dataset.ts';
import { quantile } from './figure-rows.ts';
import type { BareFixture } from './fixture.ts';
import type { Figure } from './measure.ts';
import type { Run } from './run.ts';

const SELECTED = 50;
const WARM_MS = 500;
/** Runs on for this long after the window, so that its backends are there when it ends. */
const REST_SECONDS = 1;

export interface Alone {
  label: string;
  figure?: Figure;
  failure?: string;
}

/** Rows of a select and an insert. */
export async function pgbenchRows(run: Run, bare: BareFixture): Promise<Alone[]> {
  const selects = bare.ids.items.slice(0, SELECTED).map((id) => `select * from items where id = '${id}';`);
  // A colon before a letter or digit would name a variable of pgbench.
  const data = JSON.stringify(item(1, bare.records, bare.people)).replaceAll('":', '": ');
  const insert = `insert into items_w (id, data) values (gen_random_uuid(), '${data}') returning id;`;
  return [
    await alone('pgbench, select by id', () => pgbench(run, bare, 'select', selects)),
    await alone('pgbench, insert', () => pgbench(run, bare, 'insert', [insert])),
  ];
}

/** The row of a figure, or of the reason why there is none. */
export async function alone(label: string, measure: () => Promise<Figure>): Promise<Alone> {
  try {
    return { label, figure: await measure() };
  } catch (error) {
    return { label, failure: (error as Error).message };
  }
}

async function pgbench(run: Run, bare: BareFixture, name: string, statements: readonly string[]): Promise<Figure> {
  const { options, scratch, directory } = run;
  const binary = await binaryPath();
  const files = statements.map((_, at) => join(directory, `${name}-${at}.sql`));
  await Promise.all(files.map((file, at) => writeFile(file, `${statements[at]}\n`)));
  const clients = String(options.connections);
  const lasts = String(Math.ceil(options.seconds) + REST_SECONDS);
  const log = join(directory, `pgbench-${name}`);
  const settings = ['-n', '-M', 'prepared', '-c', clients, '-j', '1', '-T', lasts, '-l', `--log-prefix=${log}`];
  const child = Bun.spawn([binary, ...settings, ...files.flatMap((file) => ['-f', file]), bare.url], {
    stdout: 'ignore',
    stderr: 'pipe',
  });
  const meter = new CpuMeter({ pid: child.pid, database: bare.server.database }, scratch.postmaster, scratch.redisCpu);
  await Bun.sleep(WARM_MS);
  const begun = Date.now();
  await meter.begin();
  await Bun.sleep(options.seconds * 1_000);
  const used = await meter.end();
  const ended = Date.now();
  if ((await child.exited) !== 0) throw new Error((await new Response(child.stderr).text()).slice(0, 300));
  const took = await latencies(`${log}.${child.pid}`, begun, ended);
  if (took.length === 0) throw new Error('not one transaction within the window');
  return {
    requestsPerSecond: (took.length * 1_000) / (ended - begun),
    ...{ app: used.app / took.length, database: used.database / took.length, redis: 0 },
    ...{ p50: quantile(took, 0.5), p99: quantile(took, 0.99) },
  };
}

/** Of the transactions that ended between two times. A line: client, number, microseconds, script, seconds, microseconds. */
async function latencies(file: string, begun: number, ended: number): Promise<number[]> {
  const lines = (await readFile(file, 'utf8')).trimEnd().split('\n');
  return lines.flatMap((line) => {
    const [, , took, , seconds, microseconds] = line.split(' ').map(Number) as number[];
    const at = (seconds as number) * 1_000 + (microseconds as number) / 1_000;
    return at >= begun && at < ended ? [(took as number) / 1_000] : [];
  });
}

/** On PATH, or among the newest programs of Debian's packages. */
async function binaryPath(): Promise<string> {
  const found = Bun.which('pgbench');
  if (found) return found;
  const root = '/usr/lib/postgresql';
  const versions = (await readdir(root).catch(() => [])).sort((a, b) => Number(b) - Number(a));
  const installed = versions.map((version) => join(root, version, 'bin/pgbench')).find((path) => Bun.which(path));
  if (!installed) throw new Error('pgbench is not installed');
  return installed;
}
