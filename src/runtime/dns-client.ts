// Asks DNS servers, over UDP only. What a name server may answer is thereby bounded by one datagram of LIMITS.dns.answerBytes: over TCP,
// anybody's name may have thousands of records, which hold up the event loop while they are read. A longer answer counts as far
// as the server sends it. One socket per server serves all questions at once, for as long as there are any.
// Failures: rejects for a name without such records, and when no server answers. Times are milliseconds.
// Contract: neighbours#fair-shares.
import { randomInt } from 'node:crypto';
import { createSocket, type Socket } from 'node:dgram';
import { getServers } from 'node:dns';
import { isIP } from 'node:net';
import { answersTo, idOf, isAnswerTo, questionFor, type RecordType } from './dns-message.ts';

export interface DnsTimes {
  /** How long one server is waited for. */
  timeout: number;
  /** How often each server is asked. */
  tries: number;
}

const IDS = 65_536;
const PORT = 53;

export class DnsClient {
  readonly #servers: readonly DnsServer[];

  /** Asks these servers, `address` or `address:port`, or the system's if there are none. */
  constructor(
    servers: readonly string[],
    private readonly times: DnsTimes,
  ) {
    this.#servers = (servers.length > 0 ? servers : getServers()).map((text) => new DnsServer(text));
  }

  /** The data of the name's records of a type. */
  async resolve(name: string, type: RecordType): Promise<Buffer[]> {
    let failure: unknown = new Error('there is no DNS server');
    for (let attempt = 0; attempt < this.times.tries * this.#servers.length; attempt++) {
      const server = this.#servers[attempt % this.#servers.length] as DnsServer;
      let answer: Buffer;
      try {
        answer = await server.ask(name, type, this.times.timeout);
      } catch (error) {
        failure = error;
        continue;
      }
      const { records, isFinal } = answersTo(answer, type);
      if (records.length > 0) return records;
      failure = new Error(`no such records of ${name}`);
      if (isFinal) break;
    }
    throw failure;
  }

  /** Ends all questions as unanswered. */
  cancel(): void {
    for (const server of this.#servers) server.end(new Error('cancelled'));
  }
}

interface Pending {
  question: Buffer;
  resolve(answer: Buffer): void;
  reject(error: Error): void;
}

class DnsServer {
  readonly #host: string;
  readonly #port: number;
  readonly #pending = new Map<number, Pending>();
  #connection: { socket: Socket; ready: Promise<void> } | null = null;

  constructor(text: string) {
    const at = isIP(text) === 0 ? text.search(/:\d+$/) : -1;
    this.#host = (at < 0 ? text : text.slice(0, at)).replace(/^\[|\]$/g, '');
    this.#port = at < 0 ? PORT : Number(text.slice(at + 1));
  }

  /** The server's answer, whatever it says. Rejects when there is none in time, or the server cannot be reached. */
  async ask(name: string, type: RecordType, timeoutMs: number): Promise<Buffer> {
    if (this.#pending.size > IDS / 2) throw new Error('too many questions');
    let id = randomInt(IDS);
    while (this.#pending.has(id)) id = randomInt(IDS);
    const question = questionFor(id, name, type);
    const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
    this.#pending.set(id, { question, resolve, reject });
    const timer = setTimeout(() => reject(new Error('the DNS server does not answer')), timeoutMs);
    this.#connection ??= this.#connect();
    const { socket, ready } = this.#connection;
    ready.then(() => socket.send(question)).catch(reject);
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
      this.#pending.delete(id);
      if (this.#pending.size === 0) this.end(new Error('unused'));
    }
  }

  /** Closes the socket, and ends the questions that wait for it. */
  end(reason: Error): void {
    this.#connection?.socket.close();
    this.#connection = null;
    for (const { reject } of this.#pending.values()) reject(reason);
  }

  /** A connected socket takes datagrams of this server only. */
  #connect(): { socket: Socket; ready: Promise<void> } {
    const socket = createSocket(isIP(this.#host) === 6 ? 'udp6' : 'udp4');
    const { promise: ready, resolve, reject } = Promise.withResolvers<void>();
    socket.on('message', (answer: Buffer) => {
      const asked = this.#pending.get(idOf(answer));
      if (asked !== undefined && isAnswerTo(asked.question, answer)) asked.resolve(answer);
    });
    socket.on('error', (error: Error) => {
      reject(error);
      if (this.#connection?.socket === socket) this.end(error);
    });
    socket.connect(this.#port, this.#host, () => resolve());
    return { socket, ready };
  }
}
