// One journey through the console by keyboard alone, in Chromium: no pointer, and no focus that a person could not reach
// with Tab and the arrows. Contract: interface#console.
import { afterAll, beforeAll, expect } from 'bun:test';
import type { Locator, Page } from 'playwright-core';
import { browserTest, visit } from './support/browser.ts';
import { startService, type TestService } from './support/service.ts';

let service: TestService;
beforeAll(async () => {
  service = await startService();
});
afterAll(() => service.stop());

const MAX_TABS = 60;

/** Presses Tab until the element has the focus. */
async function tabTo(page: Page, target: Locator): Promise<void> {
  await target.waitFor();
  for (let tabs = 0; tabs < MAX_TABS; tabs += 1) {
    if (await target.evaluate((element) => element === document.activeElement)) return;
    await page.keyboard.press('Tab');
  }
  throw new Error(`Tab does not reach ${target}`);
}

async function press(page: Page, target: Locator, key = 'Enter'): Promise<void> {
  await tabTo(page, target);
  await page.keyboard.press(key);
}

async function type(page: Page, target: Locator, text: string): Promise<void> {
  await tabTo(page, target);
  await page.keyboard.type(text);
}

const button = (page: Page, name: string): Locator => page.getByRole('button', { name, exact: true }).first();

async function signIn(page: Page, key: string): Promise<void> {
  await page.goto('/app');
  await tabTo(page, page.getByRole('tab', { selected: true }));
  if ((await page.getByRole('tab', { selected: true }).textContent()) !== 'Key')
    await page.keyboard.press('ArrowRight');
  await type(page, page.getByLabel('Key', { exact: true }), key);
  await page.keyboard.press('Enter');
}

async function addField(page: Page, label: string, choose: string): Promise<void> {
  await press(page, button(page, 'New field'));
  await type(page, page.getByRole('dialog').getByLabel('Label'), label);
  await type(page, page.getByRole('dialog').getByLabel('Type'), choose);
  await press(page, button(page, 'Save'));
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await page.getByRole('rowheader', { name: label.toLowerCase() }).waitFor();
}

browserTest(
  'sign in, make an entity with two fields, add a record, edit it in its cell, undo, delete it: by keyboard',
  () =>
    visit(service.url, async (page) => {
      const tenant = await service.tenant();
      const stored = async () => (await tenant.get('/api/entities/tasks/records')).body.data.items[0];
      await signIn(page, tenant.key);
      await press(page, page.getByRole('link', { name: 'New entity' }).first());
      await type(page, page.getByRole('dialog').getByLabel('Label'), 'Tasks');
      await type(page, page.getByRole('dialog').getByLabel('First fields'), 'None');
      await press(page, button(page, 'Save'));
      await page.getByRole('heading', { name: 'tasks' }).waitFor();
      await addField(page, 'Title', 'text');
      await addField(page, 'Hours', 'whole');
      await press(page, page.getByRole('navigation', { name: 'Main' }).getByRole('link', { name: 'tasks' }));
      await press(page, button(page, 'New record'));
      await type(page, page.getByRole('dialog').getByLabel('title'), 'Water the plants');
      await type(page, page.getByRole('dialog').getByLabel('hours'), '2');
      await press(page, button(page, 'Save'));
      await page.getByRole('dialog').waitFor({ state: 'detached' });
      const hours = page.getByRole('gridcell', { name: '2', exact: true });
      await hours.waitFor();
      await tabTo(page, page.locator('[role=gridcell][tabindex="0"]'));
      for (const key of ['Home', 'ArrowRight']) await page.keyboard.press(key);
      while (!(await hours.evaluate((cell) => cell.contains(document.activeElement))))
        await page.keyboard.press('ArrowRight');
      await page.keyboard.type('3');
      await page.keyboard.press('Enter');
      await page.getByText('Saved.').waitFor();
      expect((await stored()).hours).toBe(3);
      await tabTo(page, page.locator('[role=gridcell][tabindex="0"]'));
      await page.keyboard.press('Control+z');
      await page.getByText('Undone.').waitFor();
      expect((await stored()).hours).toBe(2);
      await page.keyboard.press('Space');
      await press(page, button(page, 'Delete'));
      await page.getByRole('heading', { name: 'Delete 1 record of tasks?' }).waitFor();
      await press(page, button(page, 'Confirm'));
      await page.getByText('No tasks yet.').waitFor();
      expect(await stored()).toBeUndefined();
    }),
);
