// The root of the service, and the links in mails that lead to its pages. Contract: browsers#pages.
import { afterAll, beforeAll, describe, expect, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { prefersHtml } from '../src/docs/root-routes.ts';
import { mailedToken, mailsTo } from './support/mailbox.ts';
import { addUser, PASSWORD, signIn } from './support/people.ts';
import { startService, type TestService, type TestTenant } from './support/service.ts';

let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService({ TRUST_PROXY: '1' });
  tenant = await service.tenant();
});
afterAll(async () => service.stop());

describe('the root', () => {
  const CHROMIUM = 'text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8';

  test('sends a browser to the console', async () => {
    const { status, headers, text } = await service.anonymous.get('/', { accept: CHROMIUM });
    expect([status, headers.get('location'), text]).toEqual([302, '/app', '']);
    expect(headers.get('vary')).toContain('Accept');
    expect(headers.get('referrer-policy')).toBe('no-referrer');
  });

  test('tells other clients what the service is and where to continue', async () => {
    const { status, body, headers } = await service.anonymous.get('/', { accept: '*/*' });
    expect(status).toBe(200);
    const { version } = JSON.parse(readFileSync('package.json', 'utf8'));
    expect(body.data).toEqual({
      ...{ name: 'Tenant Data Service', version },
      ...{ console: '/app', docs: '/swagger', openapi: '/swagger/json', health: '/health' },
    });
    expect(headers.get('vary')).toContain('Accept');
    for (const path of [body.data.docs, body.data.openapi, body.data.health]) {
      expect([path, (await service.anonymous.get(path)).status]).toEqual([path, 200]);
    }
    expect((await service.anonymous.get('/?utm_source=mail')).status).toBe(200);
    expect((await service.anonymous.post('/', {})).status).toBe(405);
  });

  test.each<[string, boolean]>([
    ['', false],
    ['*/*', false],
    ['application/json', false],
    ['application/json, text/plain, */*', false],
    ['text/html;q=0.5, application/json', false],
    ['text/html, application/json', false],
    ['text/html;q=0, */*', false],
    ['text/html;q=nonsense', false],
    ['text/plain', false],
    ['text/html', true],
    ['TEXT/HTML', true],
    ['text/*', true],
    ['text/html, */*', true],
    ['application/json;q=0.4, text/html ; q=0.5', true],
    ['application/xhtml+xml, */*;q=0.1', true],
    [CHROMIUM, true],
  ])('reads the header Accept: %s', (accept, isBrowser) => {
    expect(prefersHtml(accept)).toBe(isBrowser);
  });
});

describe('a link in a mail', () => {
  test('for a new password is /reset-password with a token that names its tenant by itself', async () => {
    await tenant.patch('/api/tenant', { settings: { passwordReset: true } });
    const { email } = await addUser(tenant);
    await service.anonymous.post('/api/auth/tenant/forgot-password', { email }, { 'x-tenant-id': tenant.slug });
    const token = await mailedToken(service, email);
    const [mail] = await mailsTo(service, email);
    expect(mail?.text.replaceAll('=\r\n', '').replaceAll('=3D', '=')).toContain(
      `${service.url}/reset-password?token=${token}`,
    );
    const answer = await service.anonymous.post('/api/auth/tenant/reset-password', {
      token,
      password: `${PASSWORD} 2`,
    });
    expect([answer.status, answer.body.data]).toEqual([200, { reset: true }]);
    await signIn(service.anonymous, tenant, email, `${PASSWORD} 2`);
  });

  test('for an invitation is /invite with its token', async () => {
    const email = 'guest@example.com';
    const invited = await tenant.post('/api/invitations', { email }, { 'x-tenant-id': tenant.slug });
    const { inviteUrl, token } = invited.body.data;
    expect(inviteUrl).toBe(`${service.url}/invite/${token}`);
    expect(await mailedToken(service, email)).toBe(token);
  });
});
