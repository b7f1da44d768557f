// Service processes that can be killed: each runs src/main.ts on the stores given, on a port of its own.
// Times are milliseconds. A process that does not listen in time is an error that ends the run; one that
// ends without being told to is counted. Contract: decisions#events.
import { type ChildProcess, spawn } from 'node:child_process';
import process from 'node:process';

const LISTEN_MS = 60_000;

export interface Victim {
  url: string;
  /** SIGKILL; resolves when it is gone. */
  kill(): Promise<void>;
}

/** Processes that ended by themselves: there should be none. */
export const fallen: string[] = [];

/** Starts a process; resolves once it listens. */
export async function startVictim(environment: Record<string, string>): Promise<Victim> {
  const child = spawn(process.execPath, ['--no-env-file', 'src/main.ts'], {
    env: { PATH: process.env.PATH ?? '', ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let complaints = '';
  child.stderr?.on('data', (text) => {
    complaints = (complaints + String(text)).slice(-2_000);
  });
  const url = await listening(child);
  let isKilled = false;
  const gone = new Promise<void>((resolve) => {
    child.once('exit', (code, signal) => {
      if (!isKilled) fallen.push(`${signal ?? code}: ${complaints}`);
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
