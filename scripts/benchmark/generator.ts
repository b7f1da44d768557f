// The load generator, a separate process: keep-alive connections with one request at a time, over raw TCP.
// Reads a Plan (JSON) from standard input, prints a line `begin` after the warm-up and a Load (JSON) at the end of the
// window. Times in milliseconds. Responses other than 2xx and broken connections count as failed.

import { AnswerReader } from './answer-reader.ts';

/** The largest share of the requests that the warm-up may use when each may be sent only once. */
const WARM_SHARE = 0.1;

export interface Target {
  method: string;
  path: string;
  body?: string;
  /** Sent as `Authorization: Bearer`. */
  key?: string;
  headers?: Record<string, string>;
}

export interface Plan {
  port: number;
  connections: number;
  warmMs: number;
  runMs: number;
  /** Sent in turn; with `once` each is sent at most once, and the window ends after the last one. */
  targets: Target[];
  once: boolean;
}

export interface Load {
  requests: number;
  failed: number;
  elapsedMs: number;
  p50: number;
  p99: number;
}

interface Link {
  reader: AnswerReader;
  sentAt: number;
}

class Generator {
  readonly #requests: Buffer[];
  #next = 0;
  #begun = 0;
  #latencies: number[] = [];
  #failed = 0;
  #open = 0;
  #finish!: () => void;
  readonly #finished = new Promise<void>((resolve) => {
    this.#finish = resolve;
  });

  constructor(readonly plan: Plan) {
    this.#requests = plan.targets.map((target) => encode(target, plan.port));
  }

  async run(): Promise<Load> {
    const began = setTimeout(() => this.#begin(), this.plan.warmMs);
    await Promise.all(Array.from({ length: this.plan.connections }, () => this.#connect()));
    await this.#finished;
    clearTimeout(began);
    return summary(this.#latencies, this.#failed, performance.now() - (this.#begun || performance.now()));
  }

  #begin(): void {
    if (this.#begun > 0) return;
    this.#latencies = [];
    this.#failed = 0;
    this.#begun = performance.now();
    setTimeout(() => this.#finish(), this.plan.runMs);
    console.log('begin');
  }

  #connect() {
    const link: Link = { reader: new AnswerReader(), sentAt: 0 };
    return Bun.connect({
      hostname: '127.0.0.1',
      port: this.plan.port,
      socket: {
        open: (socket) => {
          this.#open++;
          this.#send(socket, link);
        },
        data: (socket, data) => this.#received(socket, link, data),
        close: () => this.#closed(),
        error: (_, error) => console.error(error.message),
      },
    });
  }

  #send(socket: Bun.Socket, link: Link): void {
    if (this.plan.once && this.#next >= this.#requests.length) {
      this.#finish();
      return;
    }
    if (this.plan.once && this.#next > this.#requests.length * WARM_SHARE) this.#begin();
    const request = this.#requests[this.#next++ % this.#requests.length] as Buffer;
    link.sentAt = performance.now();
    if (socket.write(request) !== request.length) throw new Error('a request did not fit the socket buffer');
  }

  #received(socket: Bun.Socket, link: Link, data: Buffer): void {
    const status = link.reader.push(data);
    if (status === 0) return;
    if (status < 200 || status > 299) this.#failed++;
    this.#latencies.push(performance.now() - link.sentAt);
    this.#send(socket, link);
  }

  #closed(): void {
    this.#failed++;
    if (--this.#open === 0) this.#finish();
  }
}

function encode(target: Target, port: number): Buffer {
  const lines = [`${target.method} ${target.path} HTTP/1.1`, `Host: 127.0.0.1:${port}`];
  if (target.key) lines.push(`Authorization: Bearer ${target.key}`);
  for (const [name, value] of Object.entries(target.headers ?? {})) lines.push(`${name}: ${value}`);
  if (target.body !== undefined)
    lines.push('Content-Type: application/json', `Content-Length: ${Buffer.byteLength(target.body)}`);
  return Buffer.from(`${lines.join('\r\n')}\r\n\r\n${target.body ?? ''}`);
}

function summary(latencies: number[], failed: number, elapsedMs: number): Load {
  const sorted = Float64Array.from(latencies).sort();
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
  return { requests: sorted.length, failed, elapsedMs, p50: at(0.5), p99: at(0.99) };
}

if (import.meta.main) {
  const load = await new Generator((await Bun.stdin.json()) as Plan).run();
  console.log(JSON.stringify(load));
  process.exit(0);
}
