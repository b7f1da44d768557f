// CPU time of a server under test: of its process, its Postgres and Redis. Microseconds, cumulative.
// The server: utime + stime of /proc/<pid>/stat, all threads. Postgres: the backends (and the autovacuum workers) of
// one database, and the shared writers of its postmaster, whose single threads /proc/<pid>/schedstat measures exactly:
// sixteen backends rounded to hundredths of a second each would be too coarse. Redis: `info cpu`. Needs Postgres on this
// machine.

import { readdirSync, readFileSync } from 'node:fs';
import { pinProcess } from './children.ts';

/** Linux reports CPU times in hundredths of a second, independent of the kernel's tick. */
const MICROSECONDS_A_TICK = 10_000;
const SAMPLE_MS = 200;
const SHARED_WRITERS = /(checkpointer|background writer|walwriter)\s*$/;
const BACKEND = /\[local\]|\(\d+\)|autovacuum/;

export interface CpuUse {
  app: number;
  database: number;
  redis: number;
}

export interface MeteredServer {
  pid: number;
  database: string;
}

/**
 * Measures one window, from `begin` to `end`. Takes samples in between, so that a backend that exits within the window
 * is counted.
 */
export class CpuMeter {
  readonly #first = new Map<number, number>();
  readonly #last = new Map<number, number>();
  #app = 0;
  #redis = 0;
  #timer: ReturnType<typeof setInterval> | undefined;

  constructor(
    readonly server: MeteredServer,
    readonly postmaster: number,
    readonly redisCpu: () => Promise<number>,
  ) {}

  async begin(): Promise<void> {
    this.#redis = await this.redisCpu();
    for (const pid of this.#databaseProcesses()) this.#first.set(pid, threadCpu(pid) ?? 0);
    this.#app = processCpu(this.server.pid) ?? 0;
    this.#timer = setInterval(() => this.#sample(), SAMPLE_MS);
  }

  async end(): Promise<CpuUse> {
    clearInterval(this.#timer);
    const app = (processCpu(this.server.pid) ?? 0) - this.#app;
    this.#sample();
    let database = 0;
    for (const [pid, last] of this.#last) database += last - (this.#first.get(pid) ?? 0);
    return { app, database, redis: (await this.redisCpu()) - this.#redis };
  }

  #sample(): void {
    for (const pid of this.#databaseProcesses()) {
      const used = threadCpu(pid);
      if (used !== null) this.#last.set(pid, used);
    }
  }

  #databaseProcesses(): number[] {
    return postgresProcesses(this.postmaster).flatMap(({ pid, title }) =>
      servesDatabase(title, this.server.database) || SHARED_WRITERS.test(title) ? [pid] : [],
    );
  }
}

/** Pins the backends of a database to the first core, the one that their server runs on. */
export function pinBackends(postmaster: number, database: string): void {
  for (const { pid, title } of postgresProcesses(postmaster)) if (servesDatabase(title, database)) pinProcess(pid, 0);
}

/** The postmaster of a backend; throws when the backend is not a process of this machine. */
export function postmasterOf(backendPid: number): number {
  const found = readProcess(backendPid);
  if (!found) throw new Error('Postgres does not run on this machine: its CPU cannot be measured');
  return found.parent;
}

/** Resident memory in MiB. */
export function residentMiB(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1] ?? 0) / 1024;
}

/** Memory of a process in MiB: what it has alone, and with its part of what it shares, such as the shared buffers. */
export interface ProcessMemory {
  own: number;
  proportional: number;
}

/** Memory of the backends of a database. Needs the right to read their `smaps_rollup`. */
export function backendsMemory(postmaster: number, database: string): ProcessMemory[] {
  const backends = postgresProcesses(postmaster).filter(({ title }) => servesDatabase(title, database));
  return backends.flatMap(({ pid }) => {
    const memory = readText(`/proc/${pid}/smaps_rollup`);
    if (memory === null) return [];
    const sumOf = (parts: RegExp) => [...memory.matchAll(parts)].reduce((sum, [, kB]) => sum + Number(kB), 0) / 1024;
    return [{ own: sumOf(/^Private_(?:Clean|Dirty):\s+(\d+) kB/gm), proportional: sumOf(/^Pss:\s+(\d+) kB/gm) }];
  });
}

function servesDatabase(title: string, database: string): boolean {
  return BACKEND.test(title) && title.split(/\s+/).includes(database);
}

function postgresProcesses(postmaster: number): Array<{ pid: number; title: string }> {
  const found: Array<{ pid: number; title: string }> = [];
  for (const name of readdirSync('/proc')) {
    const pid = Number(name);
    if (!(pid > 0) || readProcess(pid)?.parent !== postmaster) continue;
    const title = readText(`/proc/${pid}/cmdline`);
    if (title) found.push({ pid, title: title.replaceAll('\0', ' ').trimEnd() });
  }
  return found;
}

/** Of a process with one thread; the coarse figure where the kernel has no better one. */
function threadCpu(pid: number): number | null {
  const nanoseconds = Number(readText(`/proc/${pid}/schedstat`)?.split(' ')[0]);
  return nanoseconds > 0 ? nanoseconds / 1_000 : processCpu(pid);
}

function processCpu(pid: number): number | null {
  return readProcess(pid)?.cpu ?? null;
}

/** Reads the fields after the command's name, which may contain spaces: state, parent, ... utime (12th), stime. */
function readProcess(pid: number): { parent: number; cpu: number } | null {
  const stat = readText(`/proc/${pid}/stat`);
  if (!stat) return null;
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return { parent: Number(fields[1]), cpu: (Number(fields[11]) + Number(fields[12])) * MICROSECONDS_A_TICK };
}

/** Null when the process has exited. */
function readText(file: string): string | null {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code === 'ENOENT' || code === 'ESRCH') return null;
    throw error;
  }
}
