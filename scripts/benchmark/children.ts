// Child processes of the bench: servers pinned to the first core, the bench and its generator to the last one.
// A server is ready when it prints `listening on http://HOST:PORT`; if it exits first or takes longer
// than 60 s, the start fails with an error that contains the end of its log. Times in milliseconds.

import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import type { Cleanup } from './cleanup.ts';

const READY_MS = 60_000;
const STOP_MS = 15_000;
const LISTENING = /listening on https?:\/\/[^\s:]+:(\d+)/;

export interface Server {
  pid: number;
  port: number;
  /** From the spawn to the `listening` line. */
  startMs: number;
  stop(): Promise<void>;
}

/** Without `taskset`, or on one core, nothing is pinned. */
const canPin = availableParallelism() > 1 && Bun.which('taskset') !== null;

/** Pins the bench, and the generators that inherit its affinity, to the last core. */
export function pinSelf(): void {
  if (canPin) pinProcess(process.pid, availableParallelism() - 1);
}

/** Best effort: pinning another user's process may be forbidden. */
export function pinProcess(pid: number, core: number): void {
  spawnSync('taskset', ['-cp', String(core), String(pid)], { stdio: 'ignore' });
}

/** Lets a process, and what it starts from now on, use all cores. */
export function unpin(pid: number): void {
  if (canPin) spawnSync('taskset', ['-acp', `0-${availableParallelism() - 1}`, String(pid)], { stdio: 'ignore' });
}

/** Starts `bun --no-env-file file` with exactly `env` besides PATH and HOME; its standard error goes to `logFile`.
 *  The clean-up stops it unless it was stopped before. */
export async function startServer(
  file: string,
  env: Record<string, string>,
  logFile: string,
  cleanup: Cleanup,
): Promise<Server> {
  const begun = performance.now();
  const command = [process.execPath, '--no-env-file', file];
  const child = Bun.spawn(canPin ? ['taskset', '-c', '0', ...command] : command, {
    env: { PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '', ...env },
    stdin: 'ignore',
    // Its own session: Linux gives each an equal part of the processors (autogroup), as to a service of its own.
    detached: true,
    stdout: 'pipe',
    stderr: Bun.file(logFile),
  });
  cleanup.later(`stop ${file}`, () => stopChild(child));
  const port = await waitForPort(child.stdout, child.exited, logFile).catch(async (error) => {
    await stopChild(child);
    throw error;
  });
  return { pid: child.pid, port, startMs: performance.now() - begun, stop: () => stopChild(child) };
}

async function waitForPort(stdout: ReadableStream<Uint8Array>, exited: Promise<number>, logFile: string) {
  const deadline = new Promise<never>((_, reject) =>
    setTimeout(() => reject(new Error(`not listening after ${READY_MS} ms:\n${logEnd(logFile)}`)), READY_MS).unref(),
  );
  const ended = exited.then((code) => {
    throw new Error(`ended with exit code ${code} before it listened:\n${logEnd(logFile)}`);
  });
  return Promise.race([readPort(stdout), ended, deadline]);
}

/** Continues to drain the output after the port is known: a full pipe would block the child. */
function readPort(stdout: ReadableStream<Uint8Array>): Promise<number> {
  const decoder = new TextDecoder();
  let text = '';
  return new Promise((resolve, reject) => {
    const drain = async () => {
      for await (const chunk of stdout) {
        if (text === '' || !LISTENING.test(text)) text += decoder.decode(chunk, { stream: true });
        const found = LISTENING.exec(text);
        if (found) resolve(Number(found[1]));
      }
    };
    drain().catch(reject);
  });
}

function logEnd(logFile: string): string {
  return readFileSync(logFile, 'utf8').slice(-2_000);
}

async function stopChild(child: Bun.Subprocess): Promise<void> {
  child.kill('SIGTERM');
  const killer = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
  await child.exited;
  clearTimeout(killer);
}
