// The file descriptors of the process: how many it may have, and about how many are in use. Each connection takes one.
// Linux shows the limit; elsewhere, a failure to open a file shows that the limit is reached.
// Contract: neighbours#connections.
import { closeSync, openSync, readFileSync } from 'node:fs';

/** The soft limit of the process; infinite where it cannot be read. */
export function descriptorLimit(): number {
  try {
    const limits = readFileSync('/proc/self/limits', 'utf8');
    return Number(/^Max open files\s+(\d+)/m.exec(limits)?.[1] ?? Number.POSITIVE_INFINITY);
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}

/** The lowest free descriptor: at least that many are in use. Infinite when none is free. Costs two system calls. */
export function descriptorsInUse(): number {
  try {
    const lowest = openSync('/dev/null', 'r');
    closeSync(lowest);
    return lowest;
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}
