// A rolling restart under load: processes share one Postgres and one Redis, writers reconnect, and each process in turn
// is stopped with SIGTERM and replaced by a new one on the same port. Acknowledged writes are compared with what a
// webhook receiver and one event stream per process received. Times are milliseconds.
import { setTimeout as delay } from 'node:timers/promises';
import { subscribe } from './deliveries.ts';
import { createEntity, fields } from './entities.ts';
import { type ServiceProcess, startServiceProcess } from './processes.ts';
import { type Receiver, startReceiver } from './receiver.ts';
import { createTenant, type Json } from './service.ts';
import { connectEvents, type EventStream } from './streams.ts';

export interface RollingLedger {
  restarts: number;
  /** Writes answered with 201. */
  acknowledged: number;
  /** Writes with any other answer, or without one in time. */
  failed: string[];
  /** Refused connections, and connections that broke during a request; the write was sent again. */
  refused: number;
  broken: number;
  /** Acknowledged records whose event did not reach the receiver, or did not reach any stream. */
  lost: number;
  unstreamed: number;
  /** Repeated events at the receiver, and within one stream. */
  doubled: number;
  streamedTwice: number;
  longestWriteMs: number;
  exitCodes: (number | null)[];
}

export interface RollingOptions {
  environment: Record<string, string>;
  /** Two processes need Redis. */
  processes: 1 | 2;
  /** How often each process is replaced. */
  rounds: number;
  writers: number;
  /** How long writers run before, between and after the restarts. */
  steadyMs: number;
}

/** Far more than needed on a busy machine: a longer wait means that something hangs. */
const GIVE_UP_MS = 90_000;
const SETTLE_MS = 90_000;

export async function rollingRestart(options: RollingOptions): Promise<RollingLedger> {
  const { environment, processes, rounds, writers, steadyMs } = options;
  const env = { ...environment, WEBHOOK_ALLOWED_CIDRS: '127.0.0.1/32', LOG_LEVEL: 'error' };
  const receiver = await startReceiver();
  const first = await startServiceProcess(env);
  const services = processes === 1 ? [first] : [first, await startServiceProcess(env)];
  const run = new Run([...services], env, await prepare(first, receiver), receiver);
  const watching = services.map((_, i) => run.watch(i));
  for (const i of services.keys()) await run.streamOpen(i);
  const writing = Array.from({ length: writers }, (_, i) => run.write(i));
  await delay(steadyMs);
  for (let round = 0; round < rounds; round++) {
    for (const i of services.keys()) {
      await run.replace(i);
      await run.streamOpen(i);
      await delay(steadyMs);
    }
  }
  run.isWriting = false;
  await Promise.all(writing);
  const endsAt = Date.now() + SETTLE_MS;
  const isPending = (): boolean => run.undelivered().length > 0 || (processes > 1 && run.unstreamed().length > 0);
  while (isPending() && Date.now() < endsAt) await delay(20);
  run.isWatching = false;
  await run.stop();
  await Promise.all(watching);
  await receiver.stop();
  return run.ledger();
}

interface TenantRef {
  slug: string;
  key: string;
}

async function prepare(service: ServiceProcess, receiver: Receiver): Promise<TenantRef> {
  const tenant = await createTenant(service.url);
  await createEntity(tenant, 'entry', fields('n integer'));
  await subscribe(tenant, receiver.url, { entity_name: 'entry', event_types: ['record.created'] });
  return tenant;
}

class Run {
  isWriting = true;
  isWatching = true;
  readonly #acknowledged = new Set<string>();
  readonly #failed: string[] = [];
  readonly #streams: EventStream[] = [];
  /** The open streams by process. */
  readonly #open = new Map<number, EventStream>();
  readonly #exitCodes: (number | null)[] = [];
  #refused = 0;
  #broken = 0;
  #restarts = 0;
  #longestWriteMs = 0;

  constructor(
    private readonly services: ServiceProcess[],
    private readonly env: Record<string, string>,
    private readonly tenant: TenantRef,
    private readonly receiver: Receiver,
  ) {}

  /** One writer: repeats each write under its Idempotency-Key until it is answered. */
  async write(writer: number): Promise<void> {
    for (let n = 0; this.isWriting; n++) {
      const startedAt = Date.now();
      await this.#once(writer + n, { n }, `${writer}-${n}`, startedAt + GIVE_UP_MS);
      this.#longestWriteMs = Math.max(this.#longestWriteMs, Date.now() - startedAt);
    }
  }

  async #once(at: number, body: Json, id: string, until: number): Promise<void> {
    for (let attempt = 0; Date.now() < until; attempt++) {
      const { url } = this.services[(at + attempt) % this.services.length] as ServiceProcess;
      const response = await fetch(`${url}/api/entities/entry/records`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-api-key': this.tenant.key, 'idempotency-key': id },
        body: JSON.stringify(body),
      }).catch((error: unknown) => error as { code?: string });
      if (!(response instanceof Response)) {
        if (/refused/i.test(String(response.code))) this.#refused++;
        else this.#broken++;
        await delay(5);
        continue;
      }
      const text = await response.text();
      if (response.status === 201) this.#acknowledged.add(JSON.parse(text).data.id);
      else this.#failed.push(`${response.status} ${text}`);
      return;
    }
    this.#failed.push(`${id} was not answered`);
  }

  /** Keeps an event stream open at one process. */
  async watch(i: number): Promise<void> {
    while (this.isWatching) {
      const { url } = this.services[i] as ServiceProcess;
      const stream = await connectEvents(url, this.tenant.slug, this.tenant.key).catch(() => null);
      if (stream === null) await delay(5);
      else {
        this.#streams.push(stream);
        this.#open.set(i, stream);
        while (!stream.hasEnded && this.isWatching) await delay(5);
        this.#open.delete(i);
        stream.close();
      }
    }
  }

  /** Resolves when a stream is open at a process; it receives every later event. */
  async streamOpen(i: number): Promise<void> {
    while (!this.#open.has(i)) await delay(5);
  }

  /** Stops a process with SIGTERM and starts its replacement on the same port. */
  async replace(i: number): Promise<void> {
    const old = this.services[i] as ServiceProcess;
    const stream = this.#open.get(i);
    this.#exitCodes.push(await old.stop());
    // A stream that is open from now on belongs to the replacement.
    while (stream !== undefined && this.#open.get(i) === stream) await delay(5);
    this.services[i] = await startServiceProcess({ ...this.env, PORT: new URL(old.url).port });
    this.#restarts++;
  }

  async stop(): Promise<void> {
    this.#exitCodes.push(...(await Promise.all(this.services.map((service) => service.stop()))));
  }

  undelivered(): string[] {
    const got = new Set(this.receiver.received.map(({ body }) => body.record_id.slice('rec_'.length)));
    return [...this.#acknowledged].filter((id) => !got.has(id));
  }

  unstreamed(): string[] {
    const seen = new Set(this.#streams.flatMap((stream) => recordsOf(stream)));
    return [...this.#acknowledged].filter((id) => !seen.has(id));
  }

  ledger(): RollingLedger {
    const twice = this.#streams.map((stream) => recordsOf(stream)).map((ids) => ids.length - new Set(ids).size);
    return {
      restarts: this.#restarts,
      acknowledged: this.#acknowledged.size,
      failed: this.#failed,
      refused: this.#refused,
      broken: this.#broken,
      lost: this.undelivered().length,
      unstreamed: this.unstreamed().length,
      doubled: this.receiver.received.length - new Set(this.receiver.received.map(({ body }) => body.id)).size,
      streamedTwice: twice.reduce((sum, n) => sum + n, 0),
      longestWriteMs: this.#longestWriteMs,
      exitCodes: this.#exitCodes,
    };
  }
}

function recordsOf(stream: EventStream): string[] {
  return stream.events.filter(({ event }) => event === 'record.created').map(({ data }) => data.record_id);
}
