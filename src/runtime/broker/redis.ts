// The broker on Redis; every key and channel has one prefix. Three connections: commands, subscriptions, and
// a reader that may block. Commands have their own deadline and are not resent after a lost connection, so
// none hangs and none runs twice; they reject with 503 while Redis is unavailable. Times are milliseconds.
import { Redis, type RedisOptions } from 'ioredis';
import { unavailable } from '../../errors.ts';
import type { Log } from '../log.ts';
import {
  type Broker,
  type MessageHandler,
  type QuotaWindow,
  STREAM_TTL_MS,
  type StreamEntry,
  type TakenHits,
  type WindowCount,
} from './broker.ts';
import { QuotaCounter } from './quota-windows.ts';
import { removeEntries, replyWithin, toRecord } from './replies.ts';
import { APPEND_CHAIN, COUNT, LEASE, LEASE_COUNT, MAKE_ROOM, RENEW, RETURN_HITS, TAKE, TAKE_DUE } from './scripts.ts';
import { SubscriberCheck } from './subscriber-check.ts';

const COMMAND_TIMEOUT_MS = 2_000;
const CONNECT_TIMEOUT_MS = 2_000;
/** Added to the timeout of a blocking read. */
const READ_SLACK_MS = 2_000;
const RETRY_MS = 250;

export class RedisBroker implements Broker {
  readonly #log: Log;
  readonly #prefix: string;
  readonly #commands: Redis;
  readonly #subscriber: Redis;
  readonly #reader: Redis;
  readonly #handlers = new Map<string, Set<MessageHandler>>();
  readonly #resets = new Set<() => void>();
  readonly #failReads = new Set<(error: unknown) => void>();
  readonly #quotas = new QuotaCounter(
    (script, keys, values) => this.#run(script, keys, values),
    (error) => this.#log.warn('prefetched hits could not be returned', { error }),
  );
  #closed = false;
  #wasConnected = false;
  readonly #check: SubscriberCheck;

  constructor(url: string, prefix: string, log: Log) {
    this.#log = log;
    this.#prefix = prefix;
    this.#commands = this.#connect(url, 'commands', { maxRetriesPerRequest: 2 });
    this.#subscriber = this.#connect(url, 'subscriptions', { maxRetriesPerRequest: null, autoResubscribe: false });
    this.#reader = this.#connect(url, 'reader', { maxRetriesPerRequest: 0, autoResendUnfulfilledCommands: false });
    this.#subscriber.on('message', (channel: string, message: string) => this.#deliver(channel, message));
    this.#subscriber.on('ready', () => void this.#resubscribe());
    this.#subscriber.on('close', () => this.#check.end());
    this.#check = new SubscriberCheck(
      () => (this.#isOpen() ? this.#reply(this.#subscriber.ping()) : null),
      (error) => void (this.#isOpen() && this.#reconnect(error)),
    );
    this.#reader.on('close', () => this.#breakReads(unavailable('the connection to the broker was lost')));
  }

  async publish(channel: string, message: string): Promise<void> {
    await this.#reply(this.#commands.publish(this.#channel(channel), message));
  }

  async subscribe(channel: string, handler: MessageHandler): Promise<() => Promise<void>> {
    if (this.#closed) throw unavailable('the broker is closed');
    const name = this.#channel(channel);
    const handlers = this.#handlers.get(name) ?? new Set();
    this.#handlers.set(name, handlers.add(handler));
    await this.#subscribe(name);
    return async () => {
      handlers.delete(handler);
      if (handlers.size > 0 || this.#handlers.get(name) !== handlers) return;
      this.#handlers.delete(name);
      if (this.#isOpen()) await this.#reply(this.#subscriber.unsubscribe(name));
    };
  }

  onReset(handler: () => void): () => void {
    this.#resets.add(handler);
    return () => void this.#resets.delete(handler);
  }

  /** Unlike keys, channels are shared by all databases of a server, so their names include the URL's database number. */
  #channel(name: string): string {
    return `${this.#prefix}${this.#commands.options.db ?? 0}:${name}`;
  }

  connected(): boolean {
    return this.#check.isReceiving();
  }

  #isOpen(): boolean {
    return this.#subscriber.status === 'ready';
  }

  async append(stream: string, fields: Record<string, string>, maxLength: number): Promise<string> {
    const key = this.#prefix + stream;
    const added = this.#reply(
      this.#commands.xadd(key, 'MAXLEN', '~', maxLength, '*', ...Object.entries(fields).flat()),
    );
    const [id] = await Promise.all([added, this.#reply(this.#commands.pexpire(key, STREAM_TTL_MS))]);
    return String(id);
  }

  async appendChain(
    stream: string,
    field: string,
    texts: readonly string[],
    after: string,
    maxLength: number,
  ): Promise<string> {
    const added = this.#commands.eval(
      APPEND_CHAIN,
      1,
      this.#prefix + stream,
      after,
      maxLength,
      STREAM_TTL_MS,
      field,
      ...texts,
    );
    return String(await this.#reply(added));
  }

  async trim(stream: string, length: number): Promise<void> {
    await this.#reply(this.#commands.xtrim(this.#prefix + stream, 'MAXLEN', length));
  }

  remove(stream: string, isUnwanted: (fields: Record<string, string>) => boolean): Promise<void> {
    return removeEntries(this.#commands, this.#prefix + stream, isUnwanted, (reply) => this.#reply(reply));
  }

  async read(streams: ReadonlyMap<string, string>, blockMs: number, count: number): Promise<StreamEntry[]> {
    if (streams.size === 0) return [];
    if (this.#closed) throw unavailable('the broker is closed');
    const keys = [...streams.keys()].map((stream) => this.#prefix + stream);
    // BLOCK 0 would wait without end.
    const block = Math.max(1, Math.ceil(blockMs));
    const asked = this.#reader.xread('COUNT', count, 'BLOCK', block, 'STREAMS', ...keys, ...streams.values());
    const answer = await this.#readWithin(asked, block + READ_SLACK_MS);
    return (answer ?? []).flatMap(([key, entries]) =>
      entries.map(([id, pairs]) => ({ stream: key.slice(this.#prefix.length), id, fields: toRecord(pairs) })),
    );
  }

  async lastId(stream: string): Promise<string> {
    const newest = await this.#reply(this.#commands.xrevrange(this.#prefix + stream, '+', '-', 'COUNT', 1));
    return newest[0]?.[0] ?? '0-0';
  }

  async schedule(set: string, member: string, dueAtMs: number): Promise<void> {
    await this.#reply(this.#commands.zadd(this.#prefix + set, dueAtMs, member));
  }

  async takeDue(set: string, limit: number): Promise<string[]> {
    return (await this.#eval(TAKE_DUE, set, limit)) as string[];
  }

  async unschedule(set: string, member: string): Promise<void> {
    await this.#reply(this.#commands.zrem(this.#prefix + set, member));
  }

  async count(key: string, windowMs: number): Promise<WindowCount> {
    const [count, resetMs] = (await this.#eval(COUNT, key, Math.ceil(windowMs))) as [number, number];
    return { count, resetMs };
  }

  countAll(windows: readonly QuotaWindow[]): Promise<WindowCount[]> {
    return this.#quotas.count(windows);
  }

  async take({ key, quota, windowMs }: QuotaWindow, hits: number): Promise<TakenHits> {
    const reply = (await this.#eval(TAKE, key, hits, quota, Math.ceil(windowMs))) as [number, number, number, number];
    const [isTaken, count, resetMs, endsAt] = reply;
    return { isTaken: isTaken === 1, count, resetMs, endsAt };
  }

  async giveBack(key: string, hits: number, { endsAt }: TakenHits): Promise<void> {
    await this.#eval(RETURN_HITS, key, hits, endsAt);
  }

  async lease(set: string, member: string, limit: number, ttlMs: number): Promise<boolean> {
    return (await this.#eval(LEASE, set, member, limit, ttlMs)) === 1;
  }

  async makeRoom(set: string, share: string, limit: number, kept: number): Promise<string | null> {
    return (await this.#eval(MAKE_ROOM, set, share, limit, kept)) as string | null;
  }

  async renew(set: string, members: readonly string[], ttlMs: number): Promise<void> {
    if (members.length > 0) await this.#eval(RENEW, set, ttlMs, ...members);
  }

  async release(set: string, member: string): Promise<void> {
    await this.#reply(this.#commands.zrem(this.#prefix + set, member));
  }

  async leaseCount(set: string): Promise<number> {
    return Number(await this.#eval(LEASE_COUNT, set));
  }

  async ping(): Promise<void> {
    await this.#reply(this.#commands.ping());
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#check.stop();
    this.#breakReads(unavailable('the broker is closed'));
    for (const client of [this.#commands, this.#subscriber, this.#reader]) client.disconnect();
  }

  #connect(url: string, name: string, options: RedisOptions): Redis {
    const client = new Redis(url, {
      connectTimeout: CONNECT_TIMEOUT_MS,
      autoResendUnfulfilledCommands: false,
      retryStrategy: () => RETRY_MS,
      ...options,
    });
    let isDown = false;
    client.on('error', (error: unknown) => {
      if (!isDown) this.#log.warn('the broker is unavailable', { connection: name, error });
      isDown = true;
    });
    client.on('ready', () => {
      if (isDown) this.#log.info('the broker is available again', { connection: name });
      isDown = false;
    });
    return client;
  }

  #eval(script: string, key: string, ...values: (string | number)[]): Promise<unknown> {
    return this.#run(script, [key], values);
  }

  #run(script: string, keys: readonly string[], values: readonly (string | number)[]): Promise<unknown> {
    const names = keys.map((key) => this.#prefix + key);
    return this.#reply(this.#commands.eval(script, names.length, ...names, ...values));
  }

  /** The command's reply; 503 when Redis is unavailable or does not reply in time. */
  #reply<T>(command: Promise<T>): Promise<T> {
    return replyWithin(command, COMMAND_TIMEOUT_MS);
  }

  #readWithin<T>(command: Promise<T>, ms: number): Promise<T> {
    let fail = (_: unknown): void => {};
    const broken = new Promise<never>((_, reject) => {
      fail = reject;
    });
    this.#failReads.add(fail);
    // The late command would block all later ones on this connection: reconnect.
    const read = replyWithin(Promise.race([command, broken]), ms, () => this.#reader.disconnect(true));
    return read.finally(() => this.#failReads.delete(fail));
  }

  #breakReads(error: unknown): void {
    for (const fail of this.#failReads) fail(error);
    this.#failReads.clear();
  }

  /** A failure while Redis is unavailable is ignored: `#resubscribe` runs on reconnection. */
  async #subscribe(name: string): Promise<void> {
    try {
      await this.#reply(this.#subscriber.subscribe(name));
    } catch (error) {
      if (this.#isOpen()) throw error;
    }
  }

  /** Handles a connection that was lost without a FIN. Reconnecting calls the reset handlers. */
  #reconnect(error: unknown): void {
    this.#log.warn('the subscription connection does not respond; reconnecting', { error });
    this.#subscriber.disconnect(true);
  }

  #deliver(channel: string, message: string): void {
    for (const handler of this.#handlers.get(channel) ?? []) {
      try {
        handler(message);
      } catch (error) {
        this.#log.error('a message could not be handled', { channel, error });
      }
    }
  }

  /** After each connect: subscribes again, then reports that messages may have been missed. */
  async #resubscribe(): Promise<void> {
    const isFirst = !this.#wasConnected;
    this.#wasConnected = true;
    try {
      if (this.#handlers.size > 0) await this.#reply(this.#subscriber.subscribe(...this.#handlers.keys()));
    } catch (error) {
      this.#log.warn('channels could not be subscribed again', { error });
      return this.#subscriber.disconnect(true);
    }
    if (!isFirst || this.#handlers.size > 0) for (const handler of this.#resets) handler();
    this.#check.begin();
  }
}
