// A DNS server on a local UDP port with TXT records that a test sets. Names without a record get NXDOMAIN; a silent
// server reads the questions and never responds.
import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';

const TXT = 16;
const HEADER_BYTES = 12;

export class DnsServer {
  /** TXT records by name, in lower case. */
  readonly records = new Map<string, string[]>();
  readonly questions: string[] = [];
  isSilent = false;

  private constructor(private readonly socket: Socket) {
    socket.on('message', (query, { port, address }) => {
      const { name, end } = nameIn(query);
      this.questions.push(name);
      if (!this.isSilent) socket.send(responseTo(query, end, this.records.get(name) ?? []), port, address);
    });
  }

  static async start(): Promise<DnsServer> {
    const socket = createSocket('udp4');
    socket.bind(0, '127.0.0.1');
    await once(socket, 'listening');
    return new DnsServer(socket);
  }

  get address(): string {
    return `127.0.0.1:${(this.socket.address() as AddressInfo).port}`;
  }

  stop(): void {
    this.socket.close();
  }
}

/** The name of the question, in lower case, and where the question ends. */
function nameIn(query: Buffer): { name: string; end: number } {
  const labels: string[] = [];
  let at = HEADER_BYTES;
  for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length));
    at += length + 1;
  }
  return { name: labels.join('.').toLowerCase(), end: at + 5 };
}

function responseTo(query: Buffer, end: number, texts: readonly string[]): Buffer {
  const header = Buffer.alloc(HEADER_BYTES);
  query.copy(header, 0, 0, 2);
  header.writeUInt16BE(texts.length === 0 ? 0x8183 : 0x8180, 2);
  header.writeUInt16BE(1, 4);
  header.writeUInt16BE(texts.length, 6);
  return Buffer.concat([header, query.subarray(HEADER_BYTES, end), ...texts.map(recordOf)]);
}

/** A record for the name of the question. A text over 255 bytes is several strings. */
function recordOf(text: string): Buffer {
  const strings = text.match(/.{1,255}/gs) ?? [''];
  const data = Buffer.concat(strings.map((part) => Buffer.concat([Buffer.from([part.length]), Buffer.from(part)])));
  const head = Buffer.alloc(12);
  head.writeUInt16BE(0xc000 | HEADER_BYTES, 0);
  head.writeUInt16BE(TXT, 2);
  head.writeUInt16BE(1, 4);
  head.writeUInt16BE(data.length, 10);
  return Buffer.concat([head, data]);
}
