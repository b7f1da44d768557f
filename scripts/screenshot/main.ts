// Takes the screenshots of docs/how-to/use-the-console.md: starts the service on a new data directory with the demo tenant,
// does in Chromium what the page tells, and writes six PNG files into docs/images. Light theme, 1280 x 800. Fails with the
// step that was not possible; run it again after a change of the console, and look at the pictures.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { launch } from '../../test/support/launch.ts';
import { endAll, printedKey, START, startProcess } from '../../test/support/started.ts';

const OUT = 'docs/images';
const ROWS = 5_000;
const VIEWPORT = { width: 1280, height: 800 };

const lines = Array.from({ length: ROWS }, (_, at) => {
  const day = new Date(Date.UTC(2026, 0, 1) + at * 3_600_000).toISOString();
  return `A-${String(at + 1).padStart(4, '0')},${((at * 37) % 900) + 10}.50,${at % 2 === 0},${day}`;
});
const CSV = `title,amount,paid,ordered\n${lines.join('\n')}\n`;

const directory = await mkdtemp(join(tmpdir(), 'svc-screenshots-'));
const service = startProcess(START, { DATA_DIR: directory });
const browser = await launch();
try {
  const url = await service.address;
  const key = await printedKey(service);
  const page = await browser.newPage({ baseURL: url, viewport: VIEWPORT, reducedMotion: 'reduce' });
  page.setDefaultTimeout(60_000);
  await signIn(page, key);
  await makeEntity(page);
  await importRows(page);
  await makeRole(page);
  await watchChanges(page, url, key);
} finally {
  await browser.close();
  await endAll();
  await rm(directory, { recursive: true, force: true });
}

async function shot(page: Page, name: string): Promise<void> {
  await page.getByRole('status', { name: 'Loading' }).first().waitFor({ state: 'detached' });
  await page.screenshot({ path: join(OUT, `${name}.png`), animations: 'disabled', caret: 'hide' });
  console.log(`${OUT}/${name}.png`);
}

async function signIn(page: Page, key: string): Promise<void> {
  await page.goto('/app');
  await page.getByRole('tab', { name: 'Key' }).click();
  await page.getByLabel('Key', { exact: true }).fill(key);
  await shot(page, 'sign-in');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Latest changes' }).waitFor();
  await page.getByRole('link', { name: 'companies' }).last().waitFor();
  await shot(page, 'home');
}

async function makeEntity(page: Page): Promise<void> {
  await page.getByRole('link', { name: 'New entity' }).first().click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Label').fill('Orders');
  await dialog.getByLabel('First fields').selectOption('orders');
  await shot(page, 'new-entity');
  await dialog.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('heading', { name: 'orders' }).waitFor();
}

async function importRows(page: Page): Promise<void> {
  await page.goto('/app/t/demo/records/orders?transfer=import');
  const file = { name: 'orders.csv', mimeType: 'text/csv', buffer: Buffer.from(CSV) };
  await page.getByLabel('File', { exact: true }).setInputFiles(file);
  await page.getByText('CSV, separated by commas').waitFor();
  await shot(page, 'import');
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('button', { name: 'Import' }).click();
  await dialog.getByRole('button', { name: 'Done' }).click();
}

async function makeRole(page: Page): Promise<void> {
  await page.goto('/app/t/demo/roles');
  await page.getByRole('button', { name: 'New role' }).click();
  await page.getByRole('dialog').getByLabel('Name').fill('collections');
  await page.getByRole('dialog').getByRole('button', { name: 'Create role' }).click();
  await page.getByRole('checkbox', { name: 'read orders' }).click();
  await page.getByRole('button', { name: 'rows of orders: all' }).click();
  await page.getByLabel('Row filter', { exact: true }).fill('paid = false');
  await page.getByText('sees 2,500 of 5,000 records').first().waitFor();
  await shot(page, 'role');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('button', { name: 'Save' }).waitFor({ state: 'detached' });
}

/** Changes two orders and adds one by the API, while the grid is open. */
async function watchChanges(page: Page, url: string, key: string): Promise<void> {
  await page.goto('/app/t/demo/records/orders?sort=title');
  await page.getByText('live', { exact: true }).waitFor();
  const records = `${url}/api/entities/orders/records`;
  const headers = { 'X-API-Key': key, 'Content-Type': 'application/json' };
  const { data } = (await (await fetch(`${records}?sort=title&limit=3`, { headers })).json()) as {
    data: { items: { id: string }[] };
  };
  for (const { id } of data.items.slice(1)) {
    await fetch(`${records}/${id}`, { method: 'PATCH', headers, body: JSON.stringify({ amount: '999.00' }) });
  }
  await fetch(records, { method: 'POST', headers, body: JSON.stringify({ title: 'B-0001', amount: '1.00' }) });
  await page.getByRole('button', { name: '1 new' }).waitFor();
  await page.getByRole('gridcell', { name: /999/ }).nth(1).waitFor();
  await shot(page, 'live');
}
