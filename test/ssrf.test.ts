// Addresses that webhooks must never reach (SSRF): private, loopback, link-local and other special ones are rejected when a
// subscription is created and again at each delivery, for the address connected to. Contract: decisions#webhook-requests.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import {
  AllowedAddresses,
  addressLiteral,
  type ResolvedAddress,
  resolveReceiver,
  urlFault,
  useResolver,
} from '../src/webhooks/transport/receiver.ts';
import { SUBSCRIPTIONS, settledDeliveries } from './support/deliveries.ts';
import { type Receiver, startReceiver } from './support/receiver.ts';
import { startService, type TestService, type TestTenant } from './support/service.ts';

/** Notations of an IPv4 address as a URL's host. */
function notations(address: string): string[] {
  const parts = address.split('.').map(Number) as [number, number, number, number];
  const number = parts.reduce((sum, part) => sum * 256 + part, 0);
  const hex = number.toString(16).padStart(8, '0');
  const [a, b, c, d] = parts;
  const fullWidth = [...address].map((digit) => (digit === '.' ? '。' : String.fromCodePoint(0xff10 + Number(digit))));
  return [
    address,
    `${address}.`,
    String(number),
    `0x${hex}`,
    `0X${hex.toUpperCase()}`,
    `0${number.toString(8)}`,
    parts.map((part) => `0x${part.toString(16)}`).join('.'),
    parts.map((part) => `0${part.toString(8)}`).join('.'),
    parts.map((part) => `0000${part.toString(8)}`).join('.'),
    `${a}.${b * 65_536 + c * 256 + d}`,
    `${a}.${b}.${c * 256 + d}`,
    fullWidth.join(''),
    address.replaceAll('.', '%2e'),
    address.replaceAll('.', '｡'),
    `[::ffff:${address}]`,
    `[::ffff:${hex.slice(0, 4)}:${hex.slice(4)}]`,
    `[0:0:0:0:0:ffff:${address}]`,
    `[64:ff9b::${address}]`,
    `[2002:${hex.slice(0, 4)}:${hex.slice(4)}::1]`,
    `[::${address}]`,
  ];
}

const INTERNAL = ['127.0.0.1', '10.0.0.1', '169.254.169.254', '192.168.1.1', '172.16.0.1', '100.64.0.1', '0.0.0.0'];

const SPECIAL = `127.255.255.254 10.255.255.255 172.31.255.255 192.168.255.255 169.254.0.1 100.127.255.255 0.1.2.3
  192.0.0.1 192.0.2.1 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1 192.88.99.1 224.0.0.1 239.255.255.255 240.0.0.1
  255.255.255.255 ::1 :: fe80::1 febf::1 fec0::1 fc00::1 fd12:3456::1 ff02::1 ff05::2 2001:db8::1 2001::1 2001:10::1
  2001:20::1 2002:7f00:1::1 64:ff9b::7f00:1 64:ff9b:1::1 100::1 ::ffff:10.0.0.1 ::ffff:0:127.0.0.1 ::127.0.0.1 4000::1
  8000::1 fe80::1%eth0 3fff::1 5f00::1`.split(/\s+/);

const PUBLIC = `1.1.1.1 8.8.8.8 93.184.216.34 172.15.255.255 172.32.0.0 192.167.255.255 100.63.255.255 100.128.0.0
  9.255.255.255 11.0.0.0 126.255.255.255 128.0.0.1 169.253.255.255 223.255.255.255 2606:4700:4700::1111
  2a00:1450:4001:80e::200e 2001:4860:4860::8888`.split(/\s+/);

const INVALID_URLS = [
  ...[
    '',
    ' ',
    'nothing',
    'http://',
    'http:///x',
    'https://',
    '//example.com/x',
    '/hook',
    'example.com',
    'http:example.com',
  ],
  ...[
    'file:///etc/passwd',
    'ftp://example.com/',
    'gopher://example.com:70/',
    'javascript:alert(1)',
    'data:,x',
    'ws://example.com/',
  ],
  ...['http://user@example.com/', 'http://user:pass@example.com/', 'http://:pass@example.com/', 'http://@example.com/'],
  ...['http://example.com\\@127.0.0.1/', 'http:\\\\example.com', 'http://exa\tmple.com/', 'http://exa\nmple.com/'],
  ...[
    ' http://example.com/',
    'http://example.com/ ',
    'http://exam ple.com/',
    'http://example.com/\u0000',
    '\u0001http://example.com',
  ],
  ...['http://example.com:22/', 'http://example.com:25/', 'http://example.com:1/', 'http://example.com:6379/'],
  ...[
    'http://example.com:5432/',
    'http://example.com:99999/',
    'http://example.com:x/',
    'http://[::1',
    'http://[fe80::1%25eth0]/',
  ],
  ...['http://1.2.3.4.5/', 'http://256.1.1.1/', 'http://0x100000000/', `http://example.com/${'x'.repeat(2_048)}`],
];

describe('addresses', () => {
  const allowed = new AllowedAddresses([]);
  test.each(SPECIAL)('%s is forbidden', (address) => expect(allowed.allows(address)).toBe(false));
  test.each(PUBLIC)('%s is allowed', (address) => expect(allowed.allows(address)).toBe(true));

  test('a configured range allows exactly its addresses, in every notation', () => {
    const configured = new AllowedAddresses(['10.1.0.0/16', 'fd00::/8']);
    for (const address of ['10.1.2.3', '::ffff:10.1.2.3', 'fd12::1']) expect(configured.allows(address)).toBe(true);
    for (const address of ['10.2.0.1', '::ffff:10.2.0.1', 'fc00::1', '127.0.0.1', '10.1.2.3.4', '']) {
      expect(configured.allows(address), address).toBe(false);
    }
  });
});

describe('URLs', () => {
  test.each(INVALID_URLS)('%j is rejected', (url) => expect(urlFault(url)).toBeString());

  test('every notation of an internal address is rejected by the URL check or the resolver', async () => {
    const service = { config: { webhook: { allowedCidrs: [] } } } as never;
    const reached: string[] = [];
    let tried = 0;
    for (const host of INTERNAL.flatMap(notations)) {
      for (const url of [`http://${host}/`, `https://${host}:8443/x?y#z`]) {
        tried += 1;
        if (urlFault(url) !== undefined) continue;
        // An address literal is checked without a name lookup.
        const found = await resolveReceiver(service, url, 1_000);
        if (!('fault' in found) || !found.isForbidden) reached.push(url);
        expect(addressLiteral(new URL(url)), url).toBeString();
      }
    }
    expect(reached).toEqual([]);
    expect(tried).toBeGreaterThan(200);
  });

  test.each([
    'https://example.com/',
    'http://example.com:8080/a?b=c',
    'HTTPS://EXAMPLE.com',
    'https://bücher.example/',
  ])('%s is accepted', (url) => expect(urlFault(url)).toBeUndefined());
});

describe('names', () => {
  let service: TestService;
  let tenant: TestTenant;
  let receiver: Receiver;
  let zone: string;
  let answers: (readonly ResolvedAddress[])[];
  const lookups: string[] = [];
  const resolved = (...addresses: string[]): ResolvedAddress[] =>
    addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));

  beforeAll(async () => {
    service = await startService({
      WEBHOOK_MAX_RETRIES: '0',
      WEBHOOK_ALLOWED_CIDRS: '127.0.0.2/32',
    });
    tenant = await service.tenant();
    await tenant.post('/api/entities', { name: 'task', fields: [{ key: 'title', type: 'text' }] });
    receiver = await startReceiver();
    zone = `${tenant.slug}.example`;
    useResolver(service.app, async (name) => {
      // Deliveries that other tests have left in the database.
      if (!name.endsWith(zone)) throw new Error('ENOTFOUND');
      lookups.push(name);
      const next = answers.length > 1 ? answers.shift() : answers[0];
      if (next === undefined || next.length === 0) throw new Error('ENOTFOUND');
      return next;
    });
  });
  afterAll(async () => {
    await receiver.stop();
    await service.stop();
  });

  const subscribe = (url: string) =>
    tenant.post(SUBSCRIPTIONS, { entity_name: 'task', event_types: ['record.created'], url });

  async function deliver(url: string) {
    const created = await subscribe(url);
    expect(created.status, created.text).toBe(201);
    const { id } = created.body.data;
    await tenant.post('/api/entities/task/records', { title: 'x' });
    const [delivery] = await settledDeliveries(tenant, id);
    await tenant.delete(`${SUBSCRIPTIONS}/${id}`);
    return delivery;
  }

  test('a name with an internal address among its addresses is rejected at creation', async () => {
    for (const internal of ['127.0.0.1', '10.0.0.5', '::1', 'fd00::1', '::ffff:169.254.169.254']) {
      for (const found of [
        resolved(internal),
        resolved('93.184.216.34', internal),
        resolved(internal, '2606:4700:4700::1111'),
      ]) {
        answers = [found];
        const answer = await subscribe(`http://rebinding.${zone}/hook`);
        expect(answer.status).toBe(400);
        const [{ path, message }] = answer.body.error.details;
        expect(path).toBe('url');
        expect(message).toContain('WEBHOOK_ALLOWED_CIDRS');
        expect(message.includes('tds webhooks listen')).toBe(service.app.config.databaseUrl === null);
      }
    }
  });

  test('a name that resolves to an internal address later fails the delivery without a request or a retry', async () => {
    answers = [resolved('93.184.216.34'), resolved('127.0.0.1')];
    const { port } = new URL(receiver.url);
    const delivery = await deliver(`http://rebinding.${zone}:${port}/hook`);
    expect(delivery).toMatchObject({
      status: 'failed',
      http_status: null,
      error: 'address not allowed',
      attempt_count: 1,
    });
    expect(receiver.received).toEqual([]);
  });

  test('the connection uses the checked address: the name is resolved once per delivery', async () => {
    const { port } = new URL(receiver.url);
    answers = [resolved('127.0.0.2')];
    lookups.length = 0;
    const delivery = await deliver(`http://pinned.${zone}:${port}/hook`);
    // Nothing listens at 127.0.0.2; the receiver at 127.0.0.1 has the same port and must not be reached.
    expect(delivery).toMatchObject({ status: 'failed', error: 'connection refused' });
    expect(lookups).toEqual([`pinned.${zone}`, `pinned.${zone}`]);
    expect(receiver.received).toEqual([]);
  });

  test('an unknown name is accepted at creation and fails the delivery', async () => {
    answers = [[]];
    const delivery = await deliver(`http://nowhere.${zone}/hook`);
    expect(delivery).toMatchObject({ status: 'failed', error: 'host not found' });
  });

  test('a subscription cannot be changed to an internal address', async () => {
    answers = [resolved('93.184.216.34')];
    const { id } = (await subscribe(`http://kept.${zone}/hook`)).body.data;
    const change = await tenant.put(`${SUBSCRIPTIONS}/${id}`, { url: 'http://127.0.0.1/hook' });
    expect(change.status).toBe(400);
    await tenant.delete(`${SUBSCRIPTIONS}/${id}`);
  });
});
