// The page of the API document in Chromium: the general document, then the document of a key, which stays in the page's memory.
import { afterAll, beforeAll, expect } from 'bun:test';
import { browserTest, visit } from './support/browser.ts';
import { startService, type TestService, type TestTenant } from './support/service.ts';

let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService();
  tenant = await service.tenant();
  for (const name of ['companies', 'deals']) {
    await tenant.post('/api/entities', { name, fields: [{ key: 'title', type: 'text', required: true }] });
  }
});
afterAll(() => service.stop());

browserTest('the page offers the general document and that of a key, which it keeps in memory only', () =>
  visit(
    service.url,
    async (page) => {
      await page.goto('/swagger');
      await page.getByText('/api/entities/{entityName}/records', { exact: true }).first().waitFor();
      await page.getByLabel('Key or token').fill('svc_ak_wrong');
      await page.keyboard.press('Enter');
      await page.getByText('401: missing or invalid credential').waitFor();
      await page.getByLabel('Key or token').fill(tenant.key);
      await page.getByLabel('Only these entities').fill('companies');
      await page.getByRole('button', { name: 'Show what it may call' }).click();
      await page.getByText('What this credential may call.').waitFor();
      await page.locator('#operations-tag-companies').click();
      await page.locator('[id="operations-companies-listRecordsOfCompanies"]').click();
      await page.getByRole('button', { name: 'Try it out' }).click();
      const answered = page.waitForResponse((response) => response.url().includes('/api/entities/companies/records'));
      await page.getByRole('button', { name: 'Execute' }).click();
      expect((await answered).status()).toBe(200);
      expect(await page.locator('#operations-tag-deals').count()).toBe(0);
      const stored = await page.evaluate(() =>
        JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie]),
      );
      expect(stored).not.toContain(tenant.key);
      expect(page.url()).not.toContain(tenant.key);
      await page.getByRole('button', { name: 'Show the general document' }).click();
      await page.getByText('The general document.').waitFor();
      expect(await page.getByLabel('Key or token').inputValue()).toBe('');
      await page.getByText('/api/entities/{entityName}/records', { exact: true }).first().waitFor();
    },
    { expected: [/401/] },
  ),
);
