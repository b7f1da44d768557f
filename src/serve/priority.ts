// The priority of this process relative to others on the same machine, such as PostgreSQL. Linux first divides the processors among
// sessions, unless processes are in control groups, and a niceness has effect within a session only (autogroup, see sched(7)). Each
// process of PostgreSQL has a session of its own. A process that leads its session may therefore also set the niceness of the session.
// A process that does not lead it would set it for the shell that started it, and for everything else in that shell.
import { readFileSync, writeFileSync } from 'node:fs';
import { setPriority } from 'node:os';
import process from 'node:process';

/** Sets the niceness, -20 to 19. Throws when the user may not lower it, or when the system has no such sessions. */
export function setNiceness(niceness: number): void {
  setPriority(niceness);
  if (leadsSession()) writeFileSync('/proc/self/autogroup', String(niceness));
}

function leadsSession(): boolean {
  // The name of the program, in parentheses, may contain spaces.
  const [, , , session] = readFileSync('/proc/self/stat', 'utf8').split(') ').at(-1)?.split(' ') ?? [];
  return Number(session) === process.pid;
}
