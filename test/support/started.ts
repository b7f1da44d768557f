// The service as its users start it: a process, by `./scripts/start` or `deno task start`, with its output and its
// exit code. `endAll` ends every process, also after a failed test. Times are milliseconds.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve as resolvePath } from 'node:path';
import process from 'node:process';
import { setTimeout as delay } from 'node:timers/promises';
import { ROOT } from './source.ts';
import { copyEmbedded } from './stores.ts';

export const START = ['scripts/start'];
export const DENO_START = ['node_modules/.bin/deno', 'task', 'start'];

export interface Ended {
  code: number | null;
  signal: NodeJS.Signals | null;
}

export interface Started {
  pid: number;
  /** Standard output and standard error so far. */
  readonly output: string;
  readonly errors: string;
  /** The address of its line `listening on`; rejects when the process ends before it. */
  address: Promise<string>;
  ended: Promise<Ended>;
  /** Waits until its standard error contains the text; rejects if it ends before that. */
  logged(text: string): Promise<void>;
  /** Sends a signal and waits for the end. */
  end(signal?: NodeJS.Signals): Promise<Ended>;
}

const children = new Set<ChildProcess>();
const directories = new Set<string>();

/** Starts it with these variables and the few that every program needs; its shutdown may take long on a busy machine. */
export function startProcess(command: readonly string[], environment: Record<string, string>): Started {
  const { PATH = '', HOME = '' } = process.env;
  const [program = '', ...parameters] = command;
  const env = { PATH, HOME, PORT: '0', NO_COLOR: '1', SHUTDOWN_TIMEOUT_MS: '30000', ...environment };
  const child = spawn(resolvePath(ROOT, program), parameters, { cwd: ROOT, env, stdio: ['ignore', 'pipe', 'pipe'] });
  children.add(child);
  const said = { output: '', errors: '' };
  const ended = new Promise<Ended>((resolve) => child.once('close', (code, signal) => resolve({ code, signal })));
  void ended.then(() => children.delete(child));
  child.stderr?.on('data', (text) => {
    said.errors += String(text);
  });
  const address = new Promise<string>((resolve, reject) => {
    child.stdout?.on('data', (text) => {
      said.output += String(text);
      const match = /^listening on (\S+)$/m.exec(said.output);
      if (match) resolve(match[1] as string);
    });
    void ended.then(({ code }) => reject(new Error(`ended with ${code} before it listened: ${said.errors}`)));
  });
  // Tests of failed starts never ask for the address.
  address.catch(() => undefined);
  return {
    pid: child.pid ?? 0,
    get output() {
      return said.output;
    },
    get errors() {
      return said.errors;
    },
    address,
    ended,
    logged: async (text) => {
      let isOver = false;
      void ended.then(() => {
        isOver = true;
      });
      while (!said.errors.includes(text)) {
        if (isOver) throw new Error(`ended without "${text}": ${said.errors}`);
        await delay(10);
      }
    },
    end: async (signal = 'SIGTERM') => {
      child.kill(signal);
      return ended;
    },
  };
}

/** The curl commands that it prints. Waits for the last line of its output, because a pipe may split it. */
export async function commandsIn(started: Started): Promise<string[]> {
  while (!/^API: .*\n/m.test(started.output)) await delay(10);
  return started.output.split('\n').filter((line) => /^\s*curl /.test(line));
}

export function keyIn({ output }: Started): string {
  return /svc_ak_[0-9a-f]+/.exec(output)?.[0] ?? '';
}

/** The key of the demo, once it is printed. */
export async function printedKey(started: Started): Promise<string> {
  await commandsIn(started);
  return keyIn(started);
}

/** A new directory for a service's data. */
export async function newDataDir(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'svc-start-'));
  directories.add(directory);
  return directory;
}

/** A new data directory with an empty embedded database, so that the start need not create one. */
export async function preparedDataDir(): Promise<string> {
  const directory = await newDataDir();
  await copyEmbedded(directory);
  return directory;
}

/** Kills the processes that still run and removes the data directories. */
export async function endAll(): Promise<void> {
  const running = [...children].filter(({ exitCode, signalCode }) => exitCode === null && signalCode === null);
  const exits = running.map((child) => once(child, 'exit'));
  for (const child of running) child.kill('SIGKILL');
  await Promise.all(exits);
  for (const directory of directories) await rm(directory, { recursive: true, force: true });
}
