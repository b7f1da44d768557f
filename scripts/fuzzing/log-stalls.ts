// Preloaded into a service that is a process of its own: logs the longest stall of each half second, as a line of its log.
// Only the thread of the service itself measures, not its workers.
// Times are milliseconds.
import process from 'node:process';
import { isMainThread } from 'node:worker_threads';
import { measureStalls, STALL_LOGGED } from './stalls.ts';

const LOOK_MS = 500;
const LEAST_MS = 20;

if (isMainThread) {
  const stalls = measureStalls();
  const look = (): void => {
    const longest = stalls.longest();
    stalls.reset();
    if (Math.max(longest.cpuMs, longest.collectionMs) < LEAST_MS) return;
    const line = { time: new Date().toISOString(), level: 'warn', msg: STALL_LOGGED, ...longest };
    process.stderr.write(`${JSON.stringify(line)}\n`);
  };
  setInterval(look, LOOK_MS).unref();
}
