// The priority of this process beside others on the same machine, such as PostgreSQL. Linux divides the processors among sessions
// first, unless processes are in control groups, and a niceness counts within a session only (autogroup, see sched(7)); each process of
// PostgreSQL has a session of its own. A process that leads its session may therefore set the niceness of that, too; another
// one would set it for the shell that has started it, and for everything else in it.
import { readFileSync, writeFileSync } from 'node:fs';
import { setPriority } from 'node:os';
import process from 'node:process';

/** Sets the niceness, -20 to 19. Throws when the user may not lower it, or the system has no sessions like these. */
export function setNiceness(niceness: number): void {
  setPriority(niceness);
  if (leadsSession()) writeFileSync('/proc/self/autogroup', String(niceness));
}

function leadsSession(): boolean {
  // The name of the program, in parentheses, may contain spaces.
  const [, , , session] = readFileSync('/proc/self/stat', 'utf8').split(') ').at(-1)?.split(' ') ?? [];
  return Number(session) === process.pid;
}
