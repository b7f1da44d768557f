// The niceness of the service: of its process, and of the session that it leads. Described in docs/reference/configuration.md.
import { expect, test } from 'bun:test';
import { existsSync, readFileSync } from 'node:fs';
import { getPriority } from 'node:os';
import process from 'node:process';

const SESSION = '/proc/self/autogroup';
const mayLower = process.getuid?.() === 0;
const sessionNiceness = (text: string): number => Number(/nice (-?\d+)/.exec(text)?.[1]);

/** Runs a process that sets its niceness; resolves to the niceness of the process and of its session. */
function nicenessAfter(niceness: number, detached: boolean): { own: number; session: number } {
  const program = `
    import { existsSync, readFileSync } from 'node:fs';
    import { getPriority } from 'node:os';
    import { setNiceness } from '${new URL('../src/serve/priority.ts', import.meta.url).pathname}';
    setNiceness(${niceness});
    console.log(getPriority(), existsSync('${SESSION}') ? readFileSync('${SESSION}', 'utf8') : 'nice 0');`;
  const command = [process.execPath, '--no-env-file', '-e', program];
  const run = detached ? ['setsid', '--wait', ...command] : command;
  const { stdout, stderr } = Bun.spawnSync(run, { stdin: 'ignore' });
  const text = stdout.toString();
  if (text === '') throw new Error(stderr.toString());
  return { own: Number.parseInt(text, 10), session: sessionNiceness(text) };
}

test('a process that leads its session sets the niceness of that, too', () => {
  const niceness = mayLower ? -5 : 5;
  const expected = existsSync(SESSION) ? niceness : 0;
  if (Bun.which('setsid') !== null) expect(nicenessAfter(niceness, true)).toEqual({ own: niceness, session: expected });
});

test('a process that does not lead the session leaves its niceness unchanged', () => {
  const before = existsSync(SESSION) ? sessionNiceness(readFileSync(SESSION, 'utf8')) : 0;
  expect(nicenessAfter(getPriority() + 1, false)).toEqual({ own: getPriority() + 1, session: before });
});
