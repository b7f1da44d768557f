import { expect, test } from 'bun:test';
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { PacedReads } from '../src/runtime/postgres/paced-reads.ts';

const PART = { bytes: 65_536, messages: 100 };
const HEADER_BYTES = 5;

/** A message of the server with this many bytes after its header. */
function message(bytes: number): Buffer {
  const whole = Buffer.alloc(HEADER_BYTES + bytes, 'x');
  whole.write('D');
  whole.writeUInt32BE(bytes + 4, 1);
  return whole;
}

/** Sends the bytes over a real socket, in writes of `chunk` bytes; resolves to the parts that the driver gets. */
async function received(bytes: Buffer, chunk: number): Promise<Buffer[]> {
  // The peer stays connected: what is still waiting when a connection closes is dropped.
  const server = createServer(async (peer) => {
    for (let at = 0; at < bytes.length; at += chunk) {
      if (!peer.write(bytes.subarray(at, at + chunk))) await once(peer, 'drain');
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  const parts: Buffer[] = [];
  const socket: Socket = connect(port, '127.0.0.1');
  const counted: number[] = [];
  new PacedReads(socket, (length) => counted.push(length));
  const all = Promise.withResolvers<void>();
  let count = 0;
  socket.on('data', (part: Buffer) => {
    parts.push(Buffer.from(part));
    count += part.length;
    if (count >= bytes.length) all.resolve();
  });
  await all.promise;
  socket.destroy();
  server.close();
  expect(counted).toEqual(parts.map(({ length }) => length));
  return parts;
}

/** How many messages end in each part. */
function ends(parts: readonly Buffer[], lengths: readonly number[]): number[] {
  const counts = parts.map(() => 0);
  let end = 0;
  let part = 0;
  let partEnd = parts[0]?.length ?? 0;
  for (const length of lengths) {
    end += HEADER_BYTES + length;
    while (end > partEnd) partEnd += parts[++part]?.length ?? Number.POSITIVE_INFINITY;
    counts[part] = (counts[part] ?? 0) + 1;
  }
  return counts;
}

test('the driver gets at most 100 rows and 64 KiB at once, however they arrive, and every byte in order', async () => {
  const short = Array.from({ length: 5_000 }, (_, at) => at % 40);
  const long = Array.from({ length: 12 }, (_, at) => at * 60_000);
  for (const lengths of [short, long, [...long, ...short, ...long]]) {
    const bytes = Buffer.concat(lengths.map(message));
    for (const chunk of [7_001, 65_536, 400_000]) {
      const parts = await received(bytes, chunk);
      expect(Buffer.concat(parts).equals(bytes)).toBe(true);
      expect(Math.max(...parts.map(({ length }) => length))).toBeLessThanOrEqual(PART.bytes);
      expect(Math.max(...ends(parts, lengths))).toBeLessThanOrEqual(PART.messages);
    }
  }
});

test('long rows come in parts of 64 KiB: their number does not depend on where the rows end', async () => {
  const bytes = Buffer.concat(Array.from({ length: 20 }, () => message(900_000)));
  const parts = await received(bytes, 4_000_000);
  const full = parts.filter(({ length }) => length === PART.bytes).length;
  expect(full).toBeGreaterThan(parts.length / 2);
});
