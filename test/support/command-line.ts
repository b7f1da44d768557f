// The command line as its users run it: the process `scripts/tds`, in pipes or on a terminal, with profiles of its own.
// Every process ends with the test that started it.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { ROOT } from './source.ts';

export interface Ran {
  code: number;
  out: string;
  err: string;
}

export interface RunOptions {
  input?: string;
  env?: Record<string, string>;
  cwd?: string;
}

export class CommandLine {
  /** An empty directory for its files. */
  readonly directory = mkdtempSync(join(tmpdir(), 'tds-'));
  readonly profiles = join(this.directory, 'config', 'tds', 'profiles.json');
  readonly #running = new Set<Bun.Subprocess>();

  /** Variables that every run has. */
  constructor(readonly env: Record<string, string> = {}) {}

  /** A process that still runs, with pipes. */
  start(parameters: readonly string[], { env = {}, cwd = this.directory }: RunOptions = {}) {
    const child = Bun.spawn([join(ROOT, 'scripts/tds'), ...parameters], {
      cwd,
      env: this.#environment(env),
      stdin: 'pipe',
      stdout: 'pipe',
      stderr: 'pipe',
    });
    this.#running.add(child);
    return child;
  }

  async run(parameters: readonly string[], options: RunOptions = {}): Promise<Ran> {
    const child = this.start(parameters, options);
    child.stdin.write(options.input ?? '');
    await child.stdin.end();
    const [out, err, code] = await Promise.all([
      new Response(child.stdout).text(),
      new Response(child.stderr).text(),
      child.exited,
    ]);
    this.#running.delete(child);
    return { code, out, err };
  }

  /** On a terminal: each answer is typed when its question is shown. Resolves to everything the terminal showed. */
  async onTerminal(
    parameters: readonly string[],
    answers: readonly (readonly [question: string, answer: string])[] = [],
    env: Record<string, string> = {},
  ): Promise<{ code: number; shown: string }> {
    let shown = '';
    const left = [...answers];
    const child = Bun.spawn([join(ROOT, 'scripts/tds'), ...parameters], {
      cwd: this.directory,
      env: { TERM: 'xterm', ...this.#environment(env) },
      terminal: {
        cols: 120,
        rows: 40,
        data: (terminal, bytes) => {
          shown += new TextDecoder().decode(bytes);
          const [question, answer] = left[0] ?? [];
          if (question === undefined || !shown.includes(question)) return;
          left.shift();
          terminal.write(`${answer}\r`);
        },
      },
    });
    this.#running.add(child);
    const code = await child.exited;
    this.#running.delete(child);
    return { code, shown };
  }

  close(): void {
    for (const child of this.#running) child.kill('SIGKILL');
    rmSync(this.directory, { recursive: true, force: true });
  }

  #environment(further: Record<string, string>): Record<string, string> {
    const { PATH = '', HOME = '' } = process.env;
    return { PATH, HOME, XDG_CONFIG_HOME: join(this.directory, 'config'), ...this.env, ...further };
  }
}
