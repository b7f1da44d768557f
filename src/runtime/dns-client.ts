// Asks DNS servers, over UDP only. What a name server may answer is thereby bounded by one datagram of LIMITS.dns.answerBytes: over TCP,
// anybody's name may have thousands of records, which hold up the event loop while they are read. A longer answer counts as far
// as the server sends it. One socket per server serves all questions at once, for as long as there are any.
// Failures: rejects for a name without such records, and when no server answers. Times are milliseconds.
// Contract: neighbours#fair-shares.
import { randomInt } from 'node:crypto';
import { createSocket, type Socket } from 'node:dgram';
import { getServers } from 'node:dns';
import { isIP } from 'node:net';
import { type Answer, type DecodedPacket, decode, encode, RECURSION_DESIRED } from 'dns-packet';
import { LIMITS } from '../limits.ts';

export interface DnsTimes {
  /** How long one server is waited for. */
  timeout: number;
  /** How often each server is asked. */
  tries: number;
}

type RecordType = 'A' | 'AAAA' | 'TXT';

/** The types of the library leave the code out. */
type WithCode = DecodedPacket & { rcode: string };

const IDS = 65_536;
const PORT = 53;
/** What a server answers that knows about the name, so that no other needs to be asked. */
const FINAL = new Set(['NOERROR', 'NXDOMAIN']);

export class DnsClient {
  readonly #servers: readonly DnsServer[];

  /** Asks these servers, `address` or `address:port`, or the system's if there are none. */
  constructor(
    servers: readonly string[],
    private readonly times: DnsTimes,
  ) {
    this.#servers = (servers.length > 0 ? servers : getServers()).map((text) => new DnsServer(text));
  }

  /** The addresses of a name in a family. */
  async addresses(name: string, type: 'A' | 'AAAA'): Promise<string[]> {
    return (await this.#recordsOf(name, type)).flatMap((record) => (record.type === type ? record.data : []));
  }

  /** The texts of a name; the strings of a text belong together. */
  async texts(name: string): Promise<string[]> {
    const found = await this.#recordsOf(name, 'TXT');
    return found.flatMap((record) => (record.type === 'TXT' ? [record.data].flat().join('') : []));
  }

  /** The name's records, with at least one of this type. */
  async #recordsOf(name: string, type: RecordType): Promise<Answer[]> {
    let failure: unknown = new Error('there is no DNS server');
    for (let attempt = 0; attempt < this.times.tries * this.#servers.length; attempt++) {
      const server = this.#servers[attempt % this.#servers.length] as DnsServer;
      try {
        const { answers = [], rcode } = (await server.ask(name, type, this.times.timeout)) as WithCode;
        if (answers.some((record) => record.type === type)) return answers;
        failure = new Error(`no such records of ${name}`);
        if (FINAL.has(rcode)) break;
      } catch (error) {
        failure = error;
      }
    }
    throw failure;
  }

  /** Ends all questions as unanswered. */
  cancel(): void {
    for (const server of this.#servers) server.end(new Error('cancelled'));
  }
}

interface Pending {
  name: string;
  type: RecordType;
  resolve(answer: DecodedPacket): void;
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

  /** The server's response, which may report an error. Rejects when none arrives in time, or the server cannot be reached. */
  async ask(name: string, type: RecordType, timeoutMs: number): Promise<DecodedPacket> {
    if (this.#pending.size > IDS / 2) throw new Error('too many questions');
    let id = randomInt(IDS);
    while (this.#pending.has(id)) id = randomInt(IDS);
    const question = questionFor(id, name, type);
    const { promise, resolve, reject } = Promise.withResolvers<DecodedPacket>();
    this.#pending.set(id, { name: name.replace(/\.$/, '').toLowerCase(), type, resolve, reject });
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
    socket.on('message', (datagram: Buffer) => this.#receive(datagram));
    socket.on('error', (error: Error) => {
      reject(error);
      if (this.#connection?.socket === socket) this.end(error);
    });
    socket.connect(this.#port, this.#host, () => resolve());
    return { socket, ready };
  }

  /** Ignores what does not answer a pending question: somebody else may have sent it. */
  #receive(datagram: Buffer): void {
    if (datagram.length < 2) return;
    const asked = this.#pending.get(datagram.readUInt16BE(0));
    if (asked === undefined) return;
    let answer: DecodedPacket;
    try {
      answer = decode(datagram);
    } catch (error) {
      asked.reject(new Error('the DNS server sent an invalid answer', { cause: error }));
      return;
    }
    const [question, ...others] = answer.questions ?? [];
    const isSame = question?.name.toLowerCase() === asked.name && question.type === asked.type;
    if (answer.type === 'response' && isSame && others.length === 0) asked.resolve(answer);
  }
}

/** Says how long the answer may be (RFC 6891). Throws for a name that DNS cannot have. */
function questionFor(id: number, name: string, type: RecordType): Buffer {
  const { answerBytes } = LIMITS.dns;
  return encode({
    type: 'query',
    id,
    flags: RECURSION_DESIRED,
    questions: [{ type, name }],
    additionals: [
      {
        type: 'OPT',
        name: '.',
        udpPayloadSize: answerBytes,
        extendedRcode: 0,
        ednsVersion: 0,
        flags: 0,
        flag_do: false,
        options: [],
      },
    ],
  });
}
