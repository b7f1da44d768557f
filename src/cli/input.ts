// What a command reads: JSON and lines from files or standard input (`-`), and secrets. Secrets are typed without echo or come
// from standard input, never from an argument, because process lists show arguments.
// Failures: usage errors for a missing file, invalid JSON, or a standard input that is not a terminal.
import { createReadStream, existsSync, readFileSync } from 'node:fs';
import process from 'node:process';
import { createInterface } from 'node:readline/promises';
import { Writable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { Failure, UsageError } from './failures.ts';

/** The object in a JSON file, or on standard input. */
export async function readObject(path: string): Promise<Record<string, unknown>> {
  const content = path === '-' ? await text(process.stdin) : readFile(path);
  const name = path === '-' ? 'standard input' : path;
  let value: unknown;
  try {
    value = JSON.parse(content);
  } catch (error) {
    throw new UsageError(`${name} is not JSON: ${(error as Error).message}`);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new UsageError(`${name} must hold a JSON object`);
  }
  return value as Record<string, unknown>;
}

function readFile(path: string): string {
  requireFile(path);
  return readFileSync(path, 'utf8');
}

export function requireFile(path: string): void {
  if (!existsSync(path)) throw new UsageError(`there is no file ${path}`);
}

/** The bytes of a file, or of standard input. */
export function openBytes(path: string): NodeJS.ReadableStream & AsyncIterable<Uint8Array> {
  if (path === '-') return process.stdin;
  requireFile(path);
  return createReadStream(path, { highWaterMark: 65_536 });
}

/** A secret: the first line of standard input if `source` is `-`, otherwise typed without echo. */
export async function readSecret(question: string, source: string | undefined, signal: AbortSignal): Promise<string> {
  requireSecretSource(source);
  const secret =
    source === '-' ? ((await text(process.stdin)).split(/\r?\n/)[0] ?? '') : await ask(question, signal, true);
  if (secret.trim() === '') throw new Failure('nothing was entered', null, 2);
  return secret.trim();
}

/** Refuses a credential in an argument. The message does not repeat the value, which may be one. */
export function requireSecretSource(source: string | undefined): void {
  if (source === undefined || source === '-') return;
  throw new UsageError(
    'credentials are not taken from arguments; type them when asked, or give `-` for standard input',
  );
}

/** Asks on the terminal; a hidden answer is not echoed. */
export async function ask(question: string, signal: AbortSignal, isHidden = false): Promise<string> {
  if (process.stdin.isTTY !== true) {
    throw new UsageError('standard input is no terminal to ask on; give `-` to read from it');
  }
  let isMuted = false;
  const output = new Writable({
    write: (chunk, _, done) => {
      if (!isMuted) process.stderr.write(chunk);
      done();
    },
  });
  const lines = createInterface({ input: process.stdin, output, terminal: true });
  // While the line editor reads, Ctrl-C reaches it and not the process.
  lines.on('SIGINT', () => process.kill(process.pid, 'SIGINT'));
  try {
    const answer = lines.question(`${question}: `, { signal });
    isMuted = isHidden;
    return await answer;
  } finally {
    lines.close();
    if (isHidden) process.stderr.write('\n');
  }
}
