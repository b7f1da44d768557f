// The resident memory of a process, and by how much it grows while something runs, in MiB. Sampled every 10 ms.
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';

const MIB = 1_048_576;
const PAGE_BYTES = 4_096;

export function memoryMiB(pid: number): number {
  const status = `/proc/${pid}/statm`;
  if (existsSync(status)) return (Number(readFileSync(status, 'utf8').split(' ')[1]) * PAGE_BYTES) / MIB;
  return Number(spawnSync('ps', ['-o', 'rss=', '-p', String(pid)]).stdout) / 1_024;
}

export async function growthOf<T>(pid: number, run: () => Promise<T>): Promise<{ result: T; grownMiB: number }> {
  const before = memoryMiB(pid);
  let peak = before;
  const timer = setInterval(() => {
    peak = Math.max(peak, memoryMiB(pid));
  }, 10);
  try {
    return { result: await run(), grownMiB: peak - before };
  } finally {
    clearInterval(timer);
  }
}
