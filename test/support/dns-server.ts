// A DNS server on a local UDP port with TXT records and IPv4 addresses that a test sets. Names without a record get
// NXDOMAIN; a silent server reads the questions and never responds.
import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';

const [A, TXT] = [1, 16];
const HEADER_BYTES = 12;
const TRUNCATED = 0x02;

export class DnsServer {
  /** TXT records by name, in lower case. */
  readonly records = new Map<string, string[]>();
  /** IPv4 addresses by name. */
  readonly addresses = new Map<string, string>();
  readonly questions: string[] = [];
  /** Whether this name, or any, gets no response, to this type of question. */
  isSilent: boolean | ((name: string, type: number) => boolean) = false;
  /** Whether the response to this name says that it is incomplete. */
  isTruncated: (name: string) => boolean = () => false;

  private constructor(private readonly socket: Socket) {
    socket.on('message', (query, { port, address }) => {
      const { name, end } = nameIn(query);
      this.questions.push(name);
      const type = query.readUInt16BE(end - 4);
      if (typeof this.isSilent === 'function' ? this.isSilent(name, type) : this.isSilent) return;
      const response = responseTo(query, end, this.#recordsOf(name, type));
      if (this.isTruncated(name)) response[2] = (response[2] as number) | TRUNCATED;
      socket.send(response, port, address);
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

  #recordsOf(name: string, type: number): Buffer[] {
    const ip = this.addresses.get(name);
    if (ip !== undefined) return type === A ? [recordOf(A, Buffer.from(ip.split('.').map(Number)))] : [];
    return (this.records.get(name) ?? []).map(textRecord);
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

function responseTo(query: Buffer, end: number, records: readonly Buffer[]): Buffer {
  const header = Buffer.alloc(HEADER_BYTES);
  query.copy(header, 0, 0, 2);
  header.writeUInt16BE(records.length === 0 ? 0x8183 : 0x8180, 2);
  header.writeUInt16BE(1, 4);
  header.writeUInt16BE(records.length, 6);
  return Buffer.concat([header, query.subarray(HEADER_BYTES, end), ...records]);
}

/** A text over 255 bytes is several strings. */
function textRecord(text: string): Buffer {
  const strings = text.match(/.{1,255}/gs) ?? [''];
  return recordOf(
    TXT,
    Buffer.concat(strings.map((part) => Buffer.concat([Buffer.from([part.length]), Buffer.from(part)]))),
  );
}

/** A record for the name of the question. */
function recordOf(type: number, data: Buffer): Buffer {
  const head = Buffer.alloc(12);
  head.writeUInt16BE(0xc000 | HEADER_BYTES, 0);
  head.writeUInt16BE(type, 2);
  head.writeUInt16BE(1, 4);
  head.writeUInt16BE(data.length, 10);
  return Buffer.concat([head, data]);
}
