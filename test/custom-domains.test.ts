// Custom domains: claims, their verification by DNS or by an operator, and what an unverified one cannot do.
// Contract: neighbours#custom-domains.
import { afterAll, beforeAll, expect, test } from 'bun:test';
import { sql } from '../src/runtime/sql.ts';
import { checkClaimsOnce } from '../src/tenants/custom-domains.ts';
import { DnsServer } from './support/dns-server.ts';
import { startService, type TestService, type TestTenant } from './support/service.ts';

let dns: DnsServer;
let service: TestService;
beforeAll(async () => {
  dns = await DnsServer.start();
  service = await startService({
    DNS_SERVERS: dns.address,
    RESERVED_HOSTS: 'Status.Acme.test., www.acme.test',
    BASE_URL: 'https://api.acme.test',
  });
});
afterAll(async () => {
  await service.stop();
  dns.stop();
});

let count = 0;
/** A domain of no earlier test or run. */
const newDomain = () => `d${++count}-${Date.now().toString(36)}.test`;
const claim = (tenant: TestTenant, customDomain: string | null) =>
  tenant.patch('/api/tenant', { settings: { customDomain } });
const operate = (tenant: TestTenant, change: object) =>
  service.admin.patch(`/api/admin/platform/tenants/${tenant.slug}`, change);
const confirm = (tenant: TestTenant, customDomainVerified = true) =>
  operate(tenant, { settings: { customDomainVerified } });

/** The status of a claim, after a check that does not wait for the next one to be due. */
async function statusOf(tenant: TestTenant): Promise<string | null> {
  await service.app.db.rows(sql`update platform.tenants set domain_checked_at = null where id = ${tenant.id}::uuid`);
  return (await tenant.get('/api/tenant')).body.data.customDomainStatus;
}

/** Whether requests to the host are in the tenant: others' credentials are then refused. */
async function works(host: string, other: TestTenant): Promise<boolean> {
  return (await other.get('/api/auth/whoami', { host })).status === 403;
}

test('a domain is pending until its TXT record contains the token, and works only then', async () => {
  const [tenant, other, domain] = [await service.tenant(), await service.tenant(), newDomain()];
  expect((await tenant.get('/api/tenant')).body.data).toMatchObject({
    customDomainStatus: null,
    customDomainToken: null,
  });
  const { customDomainStatus, customDomainToken: token } = (await claim(tenant, domain.toUpperCase())).body.data;
  expect([customDomainStatus, typeof token]).toEqual(['pending', 'string']);
  expect(await works(domain, other)).toBe(false);
  expect(await statusOf(tenant)).toBe('pending');
  dns.records.set(`_svc-verify.${domain}`, ['v=spf1 -all', `x${token}`]);
  expect(await statusOf(tenant)).toBe('pending');
  dns.records.set(`_svc-verify.${domain}`, ['v=spf1 -all', token]);
  expect(await statusOf(tenant)).toBe('verified');
  expect(await works(`${domain.toUpperCase()}:8443`, other)).toBe(true);
  expect((await tenant.get('/api/tenant')).body.data.customDomainToken).toBe(token);
});

test('pending claims are checked in the background too', async () => {
  const [tenant, domain] = [await service.tenant(), newDomain()];
  const token = (await claim(tenant, domain)).body.data.customDomainToken;
  dns.records.set(`_svc-verify.${domain}`, [token]);
  while ((await checkClaimsOnce(service.app)) > 0);
  expect((await tenant.get('/api/tenant')).body.data.customDomainStatus).toBe('verified');
});

test('several tenants may claim a domain; the first verified keeps it, and the others get 409 from then on', async () => {
  const [one, other, third, domain] = [
    await service.tenant(),
    await service.tenant(),
    await service.tenant(),
    newDomain(),
  ];
  const tokens: string[] = [];
  for (const tenant of [one, other]) {
    const claimed = await claim(tenant, domain);
    expect(claimed.status).toBe(200);
    tokens.push(claimed.body.data.customDomainToken);
  }
  expect(tokens[0]).not.toBe(tokens[1]);
  dns.records.set(`_svc-verify.${domain}`, [...tokens]);
  const both = await Promise.all([one, other].map(async (tenant) => [tenant, await statusOf(tenant)] as const));
  expect(both.filter(([, status]) => status === 'verified')).toHaveLength(1);
  const [winner, loser] = both[0]?.[1] === 'verified' ? [one, other] : [other, one];
  expect((await loser.get('/api/tenant')).body.data).toMatchObject({
    settings: { customDomain: null },
    customDomainStatus: null,
    customDomainToken: null,
  });
  for (const tenant of [loser, third]) expect((await claim(tenant, domain)).status).toBe(409);
  expect((await operate(third, { settings: { customDomain: domain, customDomainVerified: true } })).status).toBe(409);
  expect((await claim(winner, domain)).body.data.customDomainStatus).toBe('verified');
});

test('operators confirm a domain, at once for several tenants only the first, and take it back', async () => {
  const [one, other, domain] = [await service.tenant(), await service.tenant(), newDomain()];
  await Promise.all([claim(one, domain), claim(other, domain)]);
  const statuses = (await Promise.all([confirm(one), confirm(other)])).map(({ status }) => status).sort();
  expect(statuses[0]).toBe(200);
  expect([400, 409]).toContain(statuses[1] as number);
  const [winner, loser] = (await statusOf(one)) === 'verified' ? [one, other] : [other, one];
  expect(await works(domain, loser)).toBe(true);
  expect((await confirm(winner, false)).body.data.customDomainStatus).toBe('pending');
  expect(await works(domain, loser)).toBe(false);
  expect((await winner.patch('/api/tenant', { settings: { customDomainVerified: true } })).status).toBe(400);
  expect((await confirm(loser)).status).toBe(400);
});

test('a changed domain starts as pending, and the old one ends at once, as it does for a suspended or deleted tenant', async () => {
  const [tenant, other] = [await service.tenant(), await service.tenant()];
  const [first, second] = [newDomain(), newDomain()];
  await operate(tenant, { settings: { customDomain: first, customDomainVerified: true } });
  expect(await works(first, other)).toBe(true);
  const changed = (await claim(tenant, second)).body.data;
  expect(changed.customDomainStatus).toBe('pending');
  expect([await works(first, other), await works(second, other)]).toEqual([false, false]);
  expect((await confirm(tenant)).status).toBe(200);
  expect((await operate(tenant, { status: 'suspended' })).body.data.customDomainStatus).toBe('pending');
  expect((await claim(other, second)).status).toBe(200);
  expect((await confirm(other)).status).toBe(200);
  await operate(tenant, { status: 'active' });
  expect((await tenant.get('/api/tenant')).body.data.settings.customDomain).toBeNull();
  await service.admin.delete(`/api/admin/platform/tenants/${other.slug}?confirm=${other.slug}`);
  expect((await claim(tenant, second)).status).toBe(200);
});

test('reserved hosts, the service’s own, addresses and names with a port or a final dot cannot be claimed', async () => {
  const tenant = await service.tenant();
  for (const host of [
    ...['status.acme.test', 'WWW.acme.test', 'api.acme.test', '127.0.0.1', '1.2.3.4', '[::1]', 'localhost', '::1'],
    ...[
      'data.acme.test.',
      'data.acme.test:443',
      'döner.test',
      '*.acme.test',
      'a..b',
      `${'a'.repeat(64)}.test`.repeat(5),
    ],
  ]) {
    expect([host, (await claim(tenant, host)).status]).toEqual([host, 400]);
    expect((await operate(tenant, { settings: { customDomain: host, customDomainVerified: true } })).status).toBe(400);
  }
  expect((await claim(tenant, `xn--dner-5qa-${newDomain()}`)).status).toBe(200);
});

test('a host gives the super-admin no tenant, even a verified one', async () => {
  const [tenant, domain] = [await service.tenant(), newDomain()];
  await operate(tenant, { settings: { customDomain: domain, customDomainVerified: true } });
  expect((await service.admin.get('/api/auth/whoami', { host: domain })).body.data.tenant).toBeNull();
  expect((await service.admin.get('/api/users', { host: domain })).status).toBe(400);
  expect((await service.admin.get('/api/users', { host: domain, 'x-tenant-id': tenant.slug })).status).toBe(200);
});

test('a DNS server that does not respond delays a request by 2 s at most, once in 10 s', async () => {
  const [tenant, domain] = [await service.tenant(), newDomain()];
  await claim(tenant, domain);
  dns.isSilent = true;
  try {
    const startedAt = performance.now();
    expect(await statusOf(tenant)).toBe('pending');
    expect(performance.now() - startedAt).toBeLessThan(10_000);
    const asked = dns.questions.length;
    for (let i = 0; i < 5; i++) await tenant.get('/api/tenant');
    expect(dns.questions.length).toBe(asked);
  } finally {
    dns.isSilent = false;
  }
});
