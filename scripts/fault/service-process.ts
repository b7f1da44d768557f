// Service processes that the run may kill: each runs src/main.ts on the stores given, on its own port. A process that
// does not listen in time fails the run; one that exits by itself is recorded. Times are milliseconds.
// Contract: decisions#events.
import { type ChildProcess, spawn } from 'node:child_process';
import process from 'node:process';

const LISTEN_MS = 60_000;

export interface ServiceProcess {
  url: string;
  /** SIGKILL; resolves when it is gone. */
  kill(): Promise<void>;
}

/** Exits that the run did not cause, each with the last lines that the process logged. */
export const unexpectedExits: string[] = [];

/** Starts a process; resolves once it listens. */
export async function startService(environment: Record<string, string>): Promise<ServiceProcess> {
  const child = spawn(process.execPath, ['--no-env-file', 'src/main.ts'], {
    env: { PATH: process.env.PATH ?? '', ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let logged = '';
  child.stderr?.on('data', (text) => {
    logged = (logged + String(text)).slice(-2_000);
  });
  const url = await listening(child);
  let isKilled = false;
  const gone = new Promise<void>((resolve) => {
    child.once('exit', (code, signal) => {
      if (!isKilled) unexpectedExits.push(`${signal ?? code}: ${logged}`);
      resolve();
    });
  });
  const kill = (): Promise<void> => {
    isKilled = true;
    child.kill('SIGKILL');
    return gone;
  };
  return { url, kill };
}

function listening(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      child.kill('SIGKILL');
      reject(new Error('a process did not listen in time'));
    }, LISTEN_MS);
    let output = '';
    child.stdout?.on('data', (text) => {
      output += text;
      const [, url] = /listening on (\S+)/.exec(output) ?? [];
      if (url === undefined) return;
      clearTimeout(timer);
      resolve(url);
    });
    child.once('exit', (code) => reject(new Error(`a process ended with ${code} before it listened`)));
  });
}
