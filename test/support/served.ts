// Starts test/support/serve-app.ts as a process on one runtime, on a port that the system picks, and talks to it.
// `end` stops the process.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { createInterface } from 'node:readline';

const ROOT = new URL('../..', import.meta.url).pathname;

export type RuntimeName = 'Bun' | 'Deno';

/** The command line that runs a script of this repository on one runtime. */
function command(runtime: RuntimeName, script: string): [string, string[]] {
  if (runtime === 'Bun') return [process.execPath, ['--no-env-file', script]];
  const permissions = ['--allow-net=127.0.0.1', '--allow-env', '--allow-read'];
  return [denoBinary(), ['run', '--no-prompt', ...permissions, script]];
}

/** Not node_modules/.bin/deno: that is a script for Node.js, which may not be installed. */
export function denoBinary(): string {
  const packages = readdirSync(`${ROOT}node_modules/@deno`).map((name) => `${ROOT}node_modules/@deno/${name}/deno`);
  const found = [`${ROOT}node_modules/deno/deno`, ...packages].find((path) => existsSync(path));
  if (!found) throw new Error('the deno package is not installed');
  return found;
}

export class Served {
  private constructor(
    private readonly child: ChildProcess,
    private readonly lines: AsyncIterator<string>,
    readonly port: number,
    /** The reason if it could not listen. */
    readonly error: string | undefined,
  ) {}

  static start(runtime: RuntimeName, port = 0, ...flags: string[]): Promise<Served> {
    const [program, args] = command(runtime, `${ROOT}test/support/serve-app.ts`);
    return Served.#run(program, [...args, String(port), ...flags]);
  }

  /** With at most so many file descriptors. */
  static startWith(descriptors: number, runtime: RuntimeName): Promise<Served> {
    const [program, args] = command(runtime, `${ROOT}test/support/serve-app.ts`);
    return Served.#run('bash', ['-c', `ulimit -n ${descriptors}; exec "$0" "$@"`, program, ...args]);
  }

  static async #run(program: string, args: string[]): Promise<Served> {
    const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] });
    const lines = createInterface({ input: child.stdout as NonNullable<typeof child.stdout> })[Symbol.asyncIterator]();
    const first = JSON.parse((await lines.next()).value ?? '{"error":"ended without output"}');
    return new Served(child, lines, first.port ?? 0, first.error);
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  log(): Promise<string[]> {
    return fetch(`${this.url}/log`).then((answer) => answer.json());
  }

  /** Waits until the log has a line that starts with this text. */
  async logged(start: string): Promise<string[]> {
    for (;;) {
      const lines = await this.log();
      if (lines.some((line) => line.startsWith(start))) return lines;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  /** Resolves when the server reports that it has stopped. */
  async stop(how: 'stop' | 'force'): Promise<void> {
    this.child.stdin?.write(`${how}\n`);
    await this.lines.next();
  }

  async end(): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const exited = once(this.child, 'exit');
    this.child.kill('SIGKILL');
    await exited;
  }

  /** Sends raw bytes; resolves to everything received until the server closes or the answer is complete. */
  async raw(bytes: string): Promise<string> {
    const socket = this.dial();
    let received = '';
    socket.on('data', (chunk) => {
      received += chunk.toString('latin1');
      if (isWhole(received)) socket.destroy();
    });
    socket.on('error', (error) => {
      received += `\n${error.message}`;
    });
    socket.write(bytes);
    await new Promise((resolve) => socket.once('close', resolve));
    return received;
  }

  dial(): Socket {
    return connect(this.port, '127.0.0.1');
  }
}

/** Whether an answer with a Content-Length is complete. */
function isWhole(answer: string): boolean {
  const [head = '', ...rest] = answer.split('\r\n\r\n');
  const length = /^content-length: *(\d+)$/im.exec(head)?.[1];
  return length !== undefined && rest.length > 0 && rest.join('\r\n\r\n').length >= Number(length);
}

/** A WebSocket client that keeps its messages. */
export class Client {
  readonly received: string[] = [];
  readonly closed: Promise<number>;
  private constructor(readonly ws: WebSocket) {
    ws.onmessage = (event) => this.received.push(event.data);
    this.closed = new Promise((resolve) => {
      ws.onclose = (event) => resolve(event.code);
    });
  }

  static async open(port: number, query = ''): Promise<Client> {
    const client = new Client(new WebSocket(`ws://127.0.0.1:${port}/ws${query}`));
    await new Promise<void>((resolve, reject) => {
      client.ws.onopen = () => resolve();
      client.ws.onerror = () => reject(new Error('refused'));
    });
    return client;
  }

  /** Waits for the nth message (from 1). */
  async message(nth: number): Promise<string> {
    while (this.received.length < nth) await new Promise((resolve) => setTimeout(resolve, 5));
    return this.received[nth - 1] as string;
  }
}
