// The host names of receivers: the DNS queries, and that a name server that never responds delays nobody else.
// Contract: decisions#webhook-requests, neighbours#fair-shares.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { hashPassword } from '../src/access/passwords.ts';
import { addressesOf, openResolver } from '../src/runtime/dns.ts';
import { settledDeliveries, subscribe } from './support/deliveries.ts';
import { DnsServer } from './support/dns-server.ts';
import { fields, tenantWithEntities } from './support/entities.ts';
import { type Receiver, startReceiver } from './support/receiver.ts';
import { startService, type TestService } from './support/service.ts';

const HANGING = 100;
const AAAA = 28;
let dns: DnsServer;
let service: TestService;
let receiver: Receiver;

beforeAll(async () => {
  dns = await DnsServer.start();
  service = await startService({ DNS_SERVERS: dns.address, WEBHOOK_ALLOWED_CIDRS: '127.0.0.1/32' });
  receiver = await startReceiver();
  dns.addresses.set('receiver.example', '127.0.0.1');
  dns.addresses.set('ipv4.example', '127.0.0.1');
  dns.isSilent = (name, type) => name.startsWith('silent') || (name === 'ipv4.example' && type === AAAA);
});
afterAll(async () => {
  await receiver.stop();
  await service.stop();
  dns.stop();
});

test('names whose server never responds delay neither other names nor passwords', async () => {
  const resolver = openResolver([dns.address], { timeout: 60_000, tries: 1 });
  let settled = 0;
  const hanging = Array.from({ length: HANGING }, (_, i) =>
    addressesOf(resolver, `silent${i}.example`).catch(() => {
      settled++;
    }),
  );
  expect(await addressesOf(resolver, 'receiver.example')).toEqual([{ address: '127.0.0.1', family: 4 }]);
  expect(await hashPassword('correct horse battery')).toStartWith('scrypt$');
  expect(settled).toBe(0);
  resolver.cancel();
  await Promise.all(hanging);
});

test('a name without addresses is refused; one of the hosts file needs no name server', async () => {
  const resolver = openResolver([dns.address], { timeout: 60_000, tries: 1 });
  const asked = dns.questions.length;
  expect(await addressesOf(resolver, 'LOCALHOST')).toContainEqual({ address: '127.0.0.1', family: 4 });
  expect(dns.questions.length).toBe(asked);
  await expect(addressesOf(resolver, 'unknown.example')).rejects.toThrow();
});

test('a name whose server is silent about IPv6 has its IPv4 addresses soon', async () => {
  const resolver = openResolver([dns.address], { timeout: 4_000, tries: 1 });
  const startedAt = performance.now();
  expect(await addressesOf(resolver, 'ipv4.example')).toEqual([{ address: '127.0.0.1', family: 4 }]);
  expect(performance.now() - startedAt).toBeLessThan(3_000);
  resolver.cancel();
});

test('the names of receivers are resolved by DNS_SERVERS', async () => {
  const tenant = await tenantWithEntities(service, ['task'], fields('title text'));
  const { id } = await subscribe(tenant, receiver.url.replace('127.0.0.1', 'receiver.example'));
  await tenant.post('/api/entities/task/records', { title: 'a' });
  expect((await settledDeliveries(tenant, id)).map(({ status }) => status)).toEqual(['delivered']);
});

test('an answer is read from one datagram, however many records the name has', async () => {
  // Whoever owns a name decides how many addresses it has; over TCP they are thousands, which hold up the event loop.
  const overTcp = createServer((socket) => socket.destroy());
  let connections = 0;
  overTcp.on('connection', () => connections++);
  overTcp.listen(Number(dns.address.split(':')[1]), '127.0.0.1');
  await once(overTcp, 'listening');
  dns.addresses.set('large.example', '127.0.0.1');
  dns.isTruncated = (name) => name === 'large.example';
  const resolver = openResolver([dns.address], { timeout: 2_000, tries: 1 });
  expect(await addressesOf(resolver, 'large.example')).toEqual([{ address: '127.0.0.1', family: 4 }]);
  expect(connections).toBe(0);
  overTcp.close();
});

test('when a name server cannot be reached or has failed, the next one is asked', async () => {
  const closed = await DnsServer.start();
  const { address } = closed;
  closed.stop();
  const resolver = openResolver([address, dns.address], { timeout: 10_000, tries: 1 });
  const startedAt = performance.now();
  expect(await addressesOf(resolver, 'receiver.example')).toEqual([{ address: '127.0.0.1', family: 4 }]);
  expect(performance.now() - startedAt).toBeLessThan(5_000);
});
