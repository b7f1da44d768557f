// Receivers on https whose certificate is not what it should be: the attempt fails with the word for it, and nothing of
// the record leaves. The authority of the good ones is trusted here, so that each of the bad ones has one fault only.
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'bun:test';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createServer, getCACertificates, type Server, setDefaultCACertificates, type TLSSocket } from 'node:tls';
import { Authority, type Identity, selfSigned } from './support/certificates.ts';
import { type Json, startService, type TestService } from './support/service.ts';

const SUBSCRIPTIONS = '/api/webhooks/subscriptions';
const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n';
const ADDRESS = '127.0.0.1';

const trusted = new Authority();
const usual = getCACertificates('default');
let service: TestService;
let directory: string;
let server: Server | undefined;

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
    // Where the service is a process of its own, it is told by this.
    NODE_EXTRA_CA_CERTS: file,
  });
});
afterEach(() => void server?.close());
afterAll(async () => {
  await service.stop();
  setDefaultCACertificates(usual);
  await rm(directory, { recursive: true, force: true });
});

/** A receiver with this certificate. What it gets to read is kept. */
async function receiverWith({ key, cert }: Identity): Promise<{ url: string; read: string[] }> {
  const read: string[] = [];
  const take = (socket: TLSSocket): void => {
    // The service hangs up on it; that is what is wanted.
    socket.on('error', () => socket.destroy());
    socket.on('data', (chunk) => {
      read.push(String(chunk));
      socket.end(OK);
    });
  };
  const listening = createServer({ key, cert }, take);
  listening.on('tlsClientError', (_, socket) => socket.destroy());
  server = listening;
  await new Promise<void>((resolve) => listening.listen(0, ADDRESS, resolve));
  return { url: `https://${ADDRESS}:${(listening.address() as AddressInfo).port}/hook`, read };
}

/** What became of the delivery of one record to a URL. */
async function deliveryTo(url: string): Promise<Json> {
  const tenant = await service.tenant();
  await tenant.post('/api/entities', { name: 'task', fields: [{ key: 'title', type: 'text' }] });
  const made = await tenant.post(SUBSCRIPTIONS, { entity_name: 'task', event_types: ['record.created'], url });
  expect(made.status, made.text).toBe(201);
  await tenant.post('/api/entities/task/records', { title: 'canary of the record' });
  for (;;) {
    const [delivery] = (await tenant.get(`${SUBSCRIPTIONS}/${made.body.data.id}/deliveries`)).body.data;
    if (delivery !== undefined && delivery.status !== 'pending') return delivery;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

test('a certificate of a trusted authority, in its time and for the address called, is good', async () => {
  const { url, read } = await receiverWith(trusted.issue({ address: ADDRESS }));
  expect(await deliveryTo(url)).toMatchObject({ status: 'delivered', http_status: 200, attempt_count: 1 });
  expect(read.join('')).toContain('canary of the record');
});

const DAY_MS = 86_400_000;
const fromNow = (days: number): Date => new Date(Date.now() + days * DAY_MS);

describe('the attempt fails and nothing is sent where the certificate', () => {
  test.each<[string, () => Identity]>([
    ['vouches for itself', () => selfSigned({ address: ADDRESS })],
    ['comes from an authority that nobody trusts', () => new Authority().issue({ address: ADDRESS })],
    ['has expired', () => trusted.issue({ address: ADDRESS, from: fromNow(-9), to: fromNow(-1) })],
    ['is not valid yet', () => trusted.issue({ address: ADDRESS, from: fromNow(1), to: fromNow(9) })],
    ['is for another name', () => trusted.issue({ address: '127.0.0.2' })],
  ])('%s', async (_, made) => {
    const { url, read } = await receiverWith(made());
    expect(await deliveryTo(url)).toMatchObject({
      status: 'failed',
      http_status: null,
      error: 'bad certificate or TLS',
      attempt_count: 2,
    });
    expect(read).toEqual([]);
  });
});
