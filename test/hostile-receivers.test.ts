// Receivers with a bad certificate: the attempt fails and nothing of the record is sent. Receivers with a compressed
// answer: it is not decompressed. Slow and broken receivers are in webhook-delivery. The test's certificate authority
// is trusted here, so that each bad certificate has exactly one fault. Contract: decisions#webhook-requests.
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import type { AddressInfo, Server, Socket } from 'node:net';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { createServer as createTlsServer, getCACertificates, setDefaultCACertificates } from 'node:tls';
import { gzipSync } from 'node:zlib';
import { Authority, type Identity, selfSigned } from './support/certificates.ts';
import { settledDeliveries, subscribe } from './support/deliveries.ts';
import { fields, tenantWithEntities } from './support/entities.ts';
import { type Json, startService, type TestService } from './support/service.ts';

const OK = 'HTTP/1.1 200 OK\r\nConnection: close\r\n';
const ADDRESS = '127.0.0.1';

const trusted = new Authority();
const usual = getCACertificates('default');
let service: TestService;
let directory: string;
const servers: Server[] = [];

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'authority-'));
  const file = join(directory, 'authority.pem');
  await writeFile(file, trusted.cert);
  setDefaultCACertificates([...usual, trusted.cert]);
  service = await startService({
    WEBHOOK_ALLOWED_CIDRS: `${ADDRESS}/32`,
    WEBHOOK_RETRY_BASE_MS: '10',
    WEBHOOK_RETRY_FACTOR: '1',
    WEBHOOK_MAX_RETRIES: '1',
    // For a service that runs in its own process.
    NODE_EXTRA_CA_CERTS: file,
  });
});
afterEach(() => {
  for (const server of servers.splice(0)) server.close();
});
afterAll(async () => {
  await service.stop();
  setDefaultCACertificates(usual);
  await rm(directory, { recursive: true, force: true });
});

/** Starts a receiver that passes each connection to `handle`; resolves to its address. */
async function listen(server: Server, handle: (socket: Socket) => void, event = 'connection'): Promise<string> {
  servers.push(server);
  server.on(event, (socket: Socket) => {
    // Expected: the service closes the connection.
    socket.on('error', () => socket.destroy());
    handle(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, ADDRESS, resolve));
  return `${ADDRESS}:${(server.address() as AddressInfo).port}/hook`;
}

/** A receiver with this certificate, which records what it reads. */
async function receiverWith({ key, cert }: Identity): Promise<{ url: string; read: string[] }> {
  const read: string[] = [];
  const server = createTlsServer({ key, cert });
  server.on('tlsClientError', (_, socket) => socket.destroy());
  const handle = (socket: Socket): void => {
    socket.on('data', (chunk) => {
      read.push(String(chunk));
      socket.end(`${OK}Content-Length: 0\r\n\r\n`);
    });
  };
  return { url: `https://${await listen(server, handle, 'secureConnection')}`, read };
}

/** A receiver whose answer claims this content encoding. */
async function compressedReceiver(encoding: string, body: Uint8Array): Promise<string> {
  const answer = `${OK}Content-Encoding: ${encoding}\r\nContent-Length: ${body.byteLength}\r\n\r\n`;
  const handle = (socket: Socket): void => {
    socket.once('data', () => {
      socket.write(answer);
      socket.end(body);
    });
  };
  return `http://${await listen(createServer(), handle)}`;
}

/** Creates a record and resolves to the finished delivery. */
async function deliverTo(url: string): Promise<Json> {
  const tenant = await tenantWithEntities(service, ['task'], fields('title text'));
  const { id } = await subscribe(tenant, url, { event_types: ['record.created'] });
  await tenant.post('/api/entities/task/records', { title: 'canary of the record' });
  return (await settledDeliveries(tenant, id))[0];
}

test('a valid certificate of a trusted authority for the address is accepted', async () => {
  const { url, read } = await receiverWith(trusted.issue({ address: ADDRESS }));
  expect(await deliverTo(url)).toMatchObject({ status: 'delivered', http_status: 200, attempt_count: 1 });
  expect(read.join('')).toContain('canary of the record');
});

const DAY_MS = 86_400_000;
const fromNow = (days: number): Date => new Date(Date.now() + days * DAY_MS);

describe('the attempt fails and nothing is sent when the certificate', () => {
  test.each<[string, () => Identity]>([
    ['is self-signed', () => selfSigned({ address: ADDRESS })],
    ['comes from an untrusted authority', () => new Authority().issue({ address: ADDRESS })],
    ['has expired', () => trusted.issue({ address: ADDRESS, from: fromNow(-9), to: fromNow(-1) })],
    ['is not valid yet', () => trusted.issue({ address: ADDRESS, from: fromNow(1), to: fromNow(9) })],
    ['is for another name', () => trusted.issue({ address: '127.0.0.2' })],
  ])('%s', async (_, issue) => {
    const { url, read } = await receiverWith(issue());
    expect(await deliverTo(url)).toMatchObject({
      status: 'failed',
      http_status: null,
      error: 'bad certificate or TLS',
      attempt_count: 2,
    });
    expect(read).toEqual([]);
  });
});

const DELIVERED = { status: 'delivered', http_status: 200, attempt_count: 1, error: null };

describe('a compressed answer is not decompressed', () => {
  test.each(['gzip', 'x-gzip', 'deflate', 'br', 'zstd', 'gzip, gzip', 'nonsense'])(
    '%s, even when the encoding is wrong',
    async (encoding) => {
      const url = await compressedReceiver(encoding, Buffer.from('not compressed at all'));
      expect(await deliverTo(url)).toMatchObject(DELIVERED);
    },
  );

  test('so a gzip bomb of a gigabyte takes little memory, and its status counts', async () => {
    // Concatenated gzip members are valid gzip.
    const piece = gzipSync(new Uint8Array(1_048_576));
    const gigabyte = Buffer.concat(Array<Uint8Array>(1_024).fill(piece));
    const bombs: [string, Uint8Array][] = [
      ['gzip', gigabyte],
      ['gzip', gigabyte.subarray(0, 60_000)],
      ['gzip, gzip', gzipSync(gigabyte)],
    ];
    const before = process.resourceUsage().maxRSS;
    for (const [encoding, bomb] of bombs) {
      expect(await deliverTo(await compressedReceiver(encoding, bomb))).toMatchObject(DELIVERED);
    }
    const grownKb = process.resourceUsage().maxRSS - before;
    expect(grownKb).toBeLessThan(512 * 1_024);
  });
});
