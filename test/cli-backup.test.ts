// A drill: an installation is backed up while it is written, and restored into an empty one while the first goes on.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { readdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { CommandLine, type Ran } from './support/command-line.ts';
import { type Client, clientOf, type Json } from './support/service.ts';
import { endAll, preparedDataDir, START, startProcess } from './support/started.ts';

const ADMIN_SECRET = 'the-admin-secret-of-the-drill';
const TENANTS = ['alpha', 'beta', 'gamma'];
const PASSWORD = 'correct horse battery';

let first: CommandLine;
let second: CommandLine;
let admin: Client;

beforeAll(async () => {
  const addresses = await Promise.all([1, 2].map(startEmpty));
  [first, second] = addresses.map((address) => new CommandLine({ TDS_URL: address, TDS_KEY: ADMIN_SECRET })) as [
    CommandLine,
    CommandLine,
  ];
  admin = clientOf(addresses[0] as string, { 'x-admin-secret': ADMIN_SECRET });
  for (const slug of TENANTS) await fill(slug);
  await admin.patch('/api/admin/platform/tenants/gamma', { status: 'suspended', quotas: { records: 500 } });
});

afterAll(async () => {
  first.close();
  second.close();
  await endAll();
});

async function startEmpty(): Promise<string> {
  return startProcess(START, { DATA_DIR: await preparedDataDir(), DEMO: '0', ADMIN_SECRET }).address;
}

async function fill(slug: string): Promise<void> {
  const owner = { email: `ann@${slug}.test`, password: PASSWORD, name: 'Ann' };
  await admin.post('/api/admin/platform/tenants', { slug, name: slug, owner });
  const tenant = admin.with({ 'x-tenant-id': slug });
  await tenant.post('/api/entities', { name: 'orders', fields: [{ key: 'number', type: 'integer', unique: true }] });
  await tenant.post('/api/entities', {
    name: 'lines',
    fields: [{ key: 'order', type: 'relation', entity: 'orders', required: true }],
  });
}

/** Writes an order with a line, one transaction after another, until it is told to stop. */
async function writeUntil(slug: string, isOver: () => boolean): Promise<number> {
  const tenant = admin.with({ 'x-tenant-id': slug });
  let number = 0;
  while (!isOver()) {
    number += 1;
    const order = await tenant.post('/api/entities/orders/records', { number });
    const line = await tenant.post('/api/entities/lines/records', { order: order.body.data.id });
    expect([order.status, line.status]).toEqual([201, 201]);
  }
  return number;
}

const json = ({ out }: Ran): Json => JSON.parse(out);
const documentOf = (folder: string, slug: string): Json[] =>
  readFileSync(join(folder, `${slug}.ndjson`), 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));

test('an installation is backed up while it is written to, and restored into an empty one while the first continues', async () => {
  let isOver = false;
  const writers = ['alpha', 'beta'].map((slug) => writeUntil(slug, () => isOver));
  const orders = async (slug: string): Promise<number> =>
    (await admin.get('/api/entities/orders/records?limit=1', { 'x-tenant-id': slug })).body.data.total;
  while ((await orders('alpha')) < 20 || (await orders('beta')) < 20) await Bun.sleep(10);
  const folder = join(first.directory, 'backup');
  const backedUp = await first.run(['backup', '--all', folder, '--json']);
  expect(backedUp).toMatchObject({ code: 0 });
  expect(readdirSync(folder).toSorted()).toEqual(['alpha.ndjson', 'beta.ndjson', 'gamma.ndjson', 'manifest.json']);
  for (const name of readdirSync(folder)) expect(statSync(join(folder, name)).mode & 0o777).toBe(0o600);

  const restored = await second.run(['restore', folder, '--json']);
  expect(restored).toMatchObject({ code: 0 });
  isOver = true;
  const written = await Promise.all(writers);
  expect(Math.min(...written)).toBeGreaterThan(20);

  // The restored records equal those noted before, ids and times included, and each line has its order.
  const again = join(second.directory, 'again');
  await second.run(['backup', '--all', again]);
  for (const slug of TENANTS) {
    const [, ...before] = documentOf(folder, slug);
    const [, ...after] = documentOf(again, slug);
    expect(after).toEqual(before);
    const ids = new Set(before.filter(({ entity }) => entity === 'orders').map(({ data }) => data.id));
    const lines = before.filter(({ type, entity }) => type === 'record' && entity === 'lines');
    expect(lines.filter(({ data }) => !ids.has(data.order))).toEqual([]);
  }
  expect(json(await second.run(['tenants', 'get', 'gamma', '--json']))).toMatchObject({
    status: 'suspended',
    quotas: { records: 500 },
  });

  // The new key works, and so does the old password.
  const [{ restored: alpha }] = json(restored);
  const withKey = { env: { TDS_KEY: alpha.apiKey } };
  expect(json(await second.run(['records', 'list', 'orders', '--limit', '1', '--json'], withKey))).toHaveLength(1);
  const login = ['login', '--tenant', 'alpha', '--user', 'ann@alpha.test', '-'];
  expect(await second.run(login, { input: PASSWORD })).toMatchObject({ code: 0 });
}, 60_000);

test('a tenant that already exists is refused, and the others are restored', async () => {
  const folder = join(first.directory, 'partly');
  await first.run(['backup', '--all', folder]);
  await second.run(['tenants', 'delete', 'beta', '--confirm', 'beta']);
  const ran = await second.run(['restore', folder, '--json']);
  expect(ran.code).toBe(3);
  expect(json(ran).map(({ slug, error }: Json) => [slug, error === null])).toEqual([
    ['alpha', false],
    ['beta', true],
    ['gamma', false],
  ]);
});

test('a backup that is not whole is refused: without a manifest, shortened, or in a folder that is not empty', async () => {
  const folder = join(first.directory, 'broken');
  await first.run(['backup', '--all', folder]);
  expect(await first.run(['backup', '--all', folder])).toMatchObject({
    code: 2,
    err: expect.stringMatching(/not empty/),
  });
  const file = join(folder, 'alpha.ndjson');
  truncateSync(file, statSync(file).size - 10);
  expect(await second.run(['restore', folder])).toMatchObject({ code: 1, err: expect.stringMatching(/bytes, not/) });
  rmSync(join(folder, 'manifest.json'));
  expect(await second.run(['restore', folder])).toMatchObject({ code: 2, err: expect.stringMatching(/not finished/) });
  const cut = await second.run(['restore', file, '--slug', 'cut']);
  expect(cut.code).toBe(3);
  expect(await second.run(['tenants', 'get', 'cut'])).toMatchObject({ code: 3 });
});

test('one tenant is a file, comes back under another name, and is cloned with masked fields', async () => {
  expect(await first.run(['backup', 'one.ndjson', '--tenant', 'alpha'])).toMatchObject({ code: 0 });
  const restored = await first.run(['restore', 'one.ndjson', '--slug', 'alpha-copy', '--ids', 'new', '--json']);
  expect(json(restored).tenant.slug).toBe('alpha-copy');
  writeFileSync(join(first.directory, 'mask.json'), '{ "orders": { "number": "null" } }');
  const cloned = json(await first.run(['clone', 'alpha', 'alpha-staging', '--mask', 'mask.json', '--json']));
  const env = { TDS_KEY: cloned.apiKey };
  const [order] = json(await first.run(['records', 'list', 'orders', '--limit', '1', '--json'], { env }));
  expect(order.number).toBeNull();
});
