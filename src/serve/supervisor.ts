// Supervises several worker processes on one port (`WORKERS`). It starts them, restarts workers that exit, kills and replaces workers
// that do not answer, and stops them all; it serves no requests itself. A worker stops when the pipe to its standard input ends,
// either because the supervisor closes it or because the supervisor has exited. Times are milliseconds.
// Contract: decisions#configuration.
import { type ChildProcess, spawn } from 'node:child_process';
import { type AddressInfo, createServer } from 'node:net';
import process from 'node:process';
import { createInterface } from 'node:readline';
import type { Writable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import type { Config } from '../config.ts';
import type { Log } from '../runtime/log.ts';
import { Heartbeat } from './heartbeat.ts';
import { addressOf, listenError } from './request.ts';
import { answerHeartbeats, HEARTBEAT, isHeartbeat, MessageRouter } from './worker-messages.ts';

/** Set for worker processes: their number, from 1. */
const NUMBER_VARIABLE = 'SERVICE_PROCESS';
const MIN_BACKOFF_MS = 100;
const MAX_BACKOFF_MS = 10_000;
/** The back-off starts over for a worker that ran longer than this before it exited. */
const STABLE_AFTER_MS = 30_000;

/** Whether this process is a worker of a supervisor. */
export function isWorkerProcess(): boolean {
  return process.env[NUMBER_VARIABLE] !== undefined;
}

/** Whether this process performs the tasks that only one of several processes may perform. */
export function isFirstWorker(): boolean {
  return (process.env[NUMBER_VARIABLE] ?? '1') === '1';
}

/**
 * Answers the supervisor's heartbeats, and calls back when the supervisor stops this worker or exits; never in a process without
 * a supervisor.
 */
export function onSupervisorGone(callback: () => void): void {
  if (!isWorkerProcess()) return;
  answerHeartbeats();
  process.stdin.on('end', callback);
  process.stdin.on('error', callback);
  process.stdin.resume();
}

/** Runs `config.workers` processes until the signal aborts. Resolves to the exit code; rejects if they cannot start. */
export async function superviseProcesses(config: Config, log: Log, stopping: AbortSignal): Promise<number> {
  const port = await requireFreePort(config.host, config.port);
  const over = new AbortController();
  stopping.addEventListener('abort', () => over.abort(), { once: true });
  if (stopping.aborted) over.abort();
  const numbers = Array.from({ length: config.workers }, (_, i) => i + 1);
  const relay = new MessageRouter();
  const workers = numbers.map((number) => new SupervisedProcess(number, port, log, relay, over.signal));
  const ended = Promise.race(workers.map((worker) => worker.ended));
  const isReady = Promise.all(workers.map((worker) => worker.ready)).then(() => true);
  if (await Promise.race([isReady, ended.then(() => false)])) {
    console.log(
      [`listening on ${addressOf(config.host, port)}`, ...workers.flatMap(({ output }) => output)].join('\n'),
    );
    await ended;
  }
  over.abort();
  const codes = await Promise.all(workers.map((worker) => worker.end(config.shutdownTimeoutMs)));
  return stopping.aborted && codes.every((code) => code === 0) ? 0 : 1;
}

/** Fails when the port is in use: with port sharing on, a second server would go unnoticed. */
function requireFreePort(host: string, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once('error', (error) => reject(listenError(host, port, error)));
    probe.listen(port, host, () => {
      const address = probe.address() as AddressInfo;
      probe.close(() => resolve(address.port));
    });
  });
}

/** One worker process, restarted when it exits. */
class SupervisedProcess {
  /** Resolves when the process listens for the first time. */
  readonly ready: Promise<void>;
  /** Resolves when the process will not be restarted: `over` is aborted, or it exited before it ever listened. */
  readonly ended: Promise<void>;
  /** The lines that the process printed, other than `listening on`. */
  readonly output: string[] = [];
  #child: ChildProcess | undefined;
  #lastCode: number | null = null;
  #isReady = false;
  /** Whether the process was killed because it did not answer. */
  #wasSilent = false;

  constructor(
    private readonly number: number,
    private readonly port: number,
    private readonly log: Log,
    private readonly relay: MessageRouter,
    private readonly over: AbortSignal,
  ) {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.ready = promise;
    this.ended = this.#keepRunning(resolve);
  }

  /** Waits for the exit, and kills the process after the given time. Resolves to the exit code. */
  async end(withinMs: number): Promise<number | null> {
    const timer = setTimeout(() => this.#child?.kill('SIGKILL'), withinMs);
    await this.ended;
    clearTimeout(timer);
    return this.#lastCode;
  }

  async #keepRunning(onReady: () => void): Promise<void> {
    let pauseMs = MIN_BACKOFF_MS;
    while (!this.over.aborted) {
      const startedAt = Date.now();
      this.#wasSilent = false;
      await this.#run(onReady);
      if (this.over.aborted || !(this.#isReady || this.#wasSilent)) return;
      pauseMs = Date.now() - startedAt > STABLE_AFTER_MS ? MIN_BACKOFF_MS : Math.min(MAX_BACKOFF_MS, pauseMs * 2);
      this.log.error('a worker process exited and is restarted', {
        process: this.number,
        code: this.#lastCode,
        pauseMs,
      });
      // Logged above; the supervisor's exit code depends on the replacement.
      this.#lastCode = 0;
      await pause(pauseMs, this.over);
    }
  }

  /** Resolves when the process has exited. */
  async #run(onReady: () => void): Promise<void> {
    const env = { ...process.env, PORT: String(this.port), [NUMBER_VARIABLE]: String(this.number) };
    const child = spawn(process.execPath, commandLine(), { env, stdio: ['pipe', 'pipe', 'inherit'] });
    this.#child = child;
    const heartbeat = this.#heartbeatOf(child);
    const onOver = (): void => {
      heartbeat.stop();
      child.stdin.end();
    };
    this.over.addEventListener('abort', onOver, { once: true });
    // A failed write means that the process has exited, which is handled below.
    child.stdin.on('error', () => undefined);
    createInterface({ input: child.stdout }).on('line', (line) => {
      if (isHeartbeat(line)) heartbeat.answered();
      else this.#receive(line, child.stdin, onReady);
    });
    if (!this.over.aborted) heartbeat.start();
    this.#lastCode = await new Promise<number | null>((resolve, reject) => {
      child.once('exit', resolve);
      child.once('error', reject);
    });
    heartbeat.stop();
    this.relay.remove(this.number);
    this.over.removeEventListener('abort', onOver);
  }

  /** Kills a process that has not answered for long; it is replaced like any process that exits. */
  #heartbeatOf(child: ChildProcess): Heartbeat {
    const ask = (): void => void (child.stdin?.writable && child.stdin.write(HEARTBEAT));
    return new Heartbeat(ask, (silentMs) => {
      this.log.error('a worker process does not answer and is killed', { process: this.number, silentMs });
      this.#wasSilent = true;
      child.kill('SIGKILL');
    });
  }

  #receive(line: string, input: Writable, onReady: () => void): void {
    if (this.relay.receive(this.number, line)) return;
    if (!line.startsWith('listening on ')) {
      this.output.push(line);
      return;
    }
    this.relay.add(this.number, (text) => input.writable && input.write(text));
    if (!this.#isReady) onReady();
    this.#isReady = true;
  }
}

async function pause(ms: number, over: AbortSignal): Promise<void> {
  try {
    await delay(ms, undefined, { signal: over });
  } catch (error) {
    if (!over.aborted) throw error;
  }
}

/** The arguments that start the same program again. Deno needs `--allow-sys` to read the system's TLS roots. */
function commandLine(): string[] {
  const flags =
    'Deno' in globalThis
      ? ['run', '--no-prompt', '--allow-net', '--allow-env', '--allow-read', '--allow-write', '--allow-sys']
      : ['--no-env-file'];
  return [...flags, ...process.argv.slice(1)];
}
