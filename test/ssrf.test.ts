// Addresses that webhooks must never reach: private, loopback, link-local and other special ones, refused at creation
// and again at each delivery, on the very address connected to. Contract: decisions#webhook-requests.
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

/** Ways to write an address as a URL's host; each must lead to a refusal. */
function spellings(address: string): string[] {
  const parts = address.split('.').map(Number) as [number, number, number, number];
  const number = parts.reduce((sum, part) => sum * 256 + part, 0);
  const hex = number.toString(16).padStart(8, '0');
  const [a, b, c, d] = parts;
  const circled = [...address].map((digit) => (digit === '.' ? '。' : String.fromCodePoint(0xff10 + Number(digit))));
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
    circled.join(''),
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

const INNER = ['127.0.0.1', '10.0.0.1', '169.254.169.254', '192.168.1.1', '172.16.0.1', '100.64.0.1', '0.0.0.0'];

const SPECIAL = `127.255.255.254 10.255.255.255 172.31.255.255 192.168.255.255 169.254.0.1 100.127.255.255 0.1.2.3
  192.0.0.1 192.0.2.1 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1 192.88.99.1 224.0.0.1 239.255.255.255 240.0.0.1
  255.255.255.255 ::1 :: fe80::1 febf::1 fec0::1 fc00::1 fd12:3456::1 ff02::1 ff05::2 2001:db8::1 2001::1 2001:10::1
  2001:20::1 2002:7f00:1::1 64:ff9b::7f00:1 64:ff9b:1::1 100::1 ::ffff:10.0.0.1 ::ffff:0:127.0.0.1 ::127.0.0.1 4000::1
  8000::1 fe80::1%eth0 3fff::1 5f00::1`.split(/\s+/);

const PUBLIC = `1.1.1.1 8.8.8.8 93.184.216.34 172.15.255.255 172.32.0.0 192.167.255.255 100.63.255.255 100.128.0.0
  9.255.255.255 11.0.0.0 126.255.255.255 128.0.0.1 169.253.255.255 223.255.255.255 2606:4700:4700::1111
  2a00:1450:4001:80e::200e 2001:4860:4860::8888`.split(/\s+/);

const REFUSED_URLS = [
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
  test.each(SPECIAL)('%s may not be reached', (address) => expect(allowed.allows(address)).toBe(false));
  test.each(PUBLIC)('%s may be reached', (address) => expect(allowed.allows(address)).toBe(true));

  test('allowed ranges open exactly themselves, however the address is written', () => {
    const opened = new AllowedAddresses(['10.1.0.0/16', 'fd00::/8']);
    for (const address of ['10.1.2.3', '::ffff:10.1.2.3', 'fd12::1']) expect(opened.allows(address)).toBe(true);
    for (const address of ['10.2.0.1', '::ffff:10.2.0.1', 'fc00::1', '127.0.0.1', '10.1.2.3.4', '']) {
      expect(opened.allows(address), address).toBe(false);
    }
  });
});

describe('URLs', () => {
  test.each(REFUSED_URLS)('%j is no receiver', (url) => expect(urlFault(url)).toBeString());

  test('every spelling of an inner address is refused, whoever reads the URL', async () => {
    const service = { config: { webhook: { allowedCidrs: [] } } } as never;
    const reached: string[] = [];
    let tried = 0;
    for (const host of INNER.flatMap(spellings)) {
      for (const url of [`http://${host}/`, `https://${host}:8443/x?y#z`]) {
        tried += 1;
        if (urlFault(url) !== undefined) continue;
        // A host that is an address is judged as it is, without asking any resolver.
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
  ])('%s may be a receiver', (url) => expect(urlFault(url)).toBeUndefined());
});

describe('names', () => {
  let service: TestService;
  let tenant: TestTenant;
  let receiver: Receiver;
  let zone: string;
  let answers: (readonly ResolvedAddress[])[];
  const asked: string[] = [];
  const of = (...addresses: string[]): ResolvedAddress[] =>
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
      // The deliveries that other tests have left in the database are none of these tests' business.
      if (!name.endsWith(zone)) throw new Error('ENOTFOUND');
      asked.push(name);
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

  async function delivered(url: string) {
    const made = await subscribe(url);
    expect(made.status, made.text).toBe(201);
    const { id } = made.body.data;
    await tenant.post('/api/entities/task/records', { title: 'x' });
    const [delivery] = await settledDeliveries(tenant, id);
    await tenant.delete(`${SUBSCRIPTIONS}/${id}`);
    return delivery;
  }

  test('a name that leads inside is refused at creation, also when only one of its addresses does', async () => {
    for (const inner of ['127.0.0.1', '10.0.0.5', '::1', 'fd00::1', '::ffff:169.254.169.254']) {
      for (const found of [of(inner), of('93.184.216.34', inner), of(inner, '2606:4700:4700::1111')]) {
        answers = [found];
        const answer = await subscribe(`http://rebinding.${zone}/hook`);
        expect(answer.status).toBe(400);
        expect(answer.body.error.details[0].path).toBe('url');
      }
    }
  });

  test('a name that changes after it was checked is refused at the delivery, for good, and nothing is sent', async () => {
    answers = [of('93.184.216.34'), of('127.0.0.1')];
    const { port } = new URL(receiver.url);
    const delivery = await delivered(`http://rebinding.${zone}:${port}/hook`);
    expect(delivery).toMatchObject({
      status: 'failed',
      http_status: null,
      error: 'address not allowed',
      attempt_count: 1,
    });
    expect(receiver.received).toEqual([]);
  });

  test('the connection goes to the address that was checked: the name is asked once a delivery', async () => {
    const { port } = new URL(receiver.url);
    answers = [of('127.0.0.2')];
    asked.length = 0;
    const delivery = await delivered(`http://pinned.${zone}:${port}/hook`);
    // Nothing listens at 127.0.0.2; the receiver at 127.0.0.1 on the same port must not be what is reached.
    expect(delivery).toMatchObject({ status: 'failed', error: 'connection refused' });
    expect(asked).toEqual([`pinned.${zone}`, `pinned.${zone}`]);
    expect(receiver.received).toEqual([]);
  });

  test('a name that cannot be found is accepted at creation and fails at the delivery', async () => {
    answers = [[]];
    const delivery = await delivered(`http://nowhere.${zone}/hook`);
    expect(delivery).toMatchObject({ status: 'failed', error: 'host not found' });
  });

  test('a stored URL that is no longer acceptable is not called', async () => {
    answers = [of('93.184.216.34')];
    const { id } = (await subscribe(`http://kept.${zone}/hook`)).body.data;
    const change = await tenant.put(`${SUBSCRIPTIONS}/${id}`, { url: 'http://127.0.0.1/hook' });
    expect(change.status).toBe(400);
    await tenant.delete(`${SUBSCRIPTIONS}/${id}`);
  });
});
