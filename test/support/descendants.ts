// Finds and kills the descendants of a process: `deno task` and a supervisor start the service as a child. Uses `ps`.
import { execFile } from 'node:child_process';
import process from 'node:process';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** Kills the children of a process and theirs with SIGKILL, but not the process itself. */
export async function killDescendants(pid: number): Promise<void> {
  const found = [pid];
  for (const parent of found) found.push(...(await childrenOf(parent)));
  for (const descendant of found.slice(1)) kill(descendant);
}

/** A process that has already ended is not an error. */
function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    if ((error as { code?: string }).code !== 'ESRCH') throw error;
  }
}

export async function childrenOf(pid: number): Promise<number[]> {
  const { stdout } = await run('ps', ['-A', '-o', 'pid=,ppid=']);
  const pairs = stdout.trim().split('\n');
  return pairs
    .map((line) => line.trim().split(/\s+/).map(Number))
    .filter(([, parent]) => parent === pid)
    .map(([child]) => child as number);
}

/** Waits until a process has ended; a zombie counts as ended. */
export async function gone(pid: number): Promise<void> {
  for (;;) {
    const state = await run('ps', ['-o', 'stat=', '-p', String(pid)]).catch(() => ({ stdout: '' }));
    if (state.stdout.trim() === '' || state.stdout.startsWith('Z')) return;
    await delay(20);
  }
}
