// Import and Export of the console in Chromium: files and pasted lines, mapping, relations by name, checks, progress, refused
// lines, cancelling, resuming, undo; the readers of CSV and of values on their own. Contract: interface#console.
import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test';
import { readFile } from 'node:fs/promises';
import type { Page } from 'playwright-core';
import type { Field } from '../console/api/answers.ts';
import { CsvReader, csvLine, separatorOf } from '../console/pages/records/csv.ts';
import { convert, guessType } from '../console/pages/records/import-values.ts';
import { axe, browserTest, signedIn, visit } from './support/browser.ts';
import { startService, type TestService, type TestTenant } from './support/service.ts';

const RECORDS = '/api/entities/companies/records';

let service: TestService;
let tenant: TestTenant;
beforeAll(async () => {
  service = await startService();
});
afterAll(() => service.stop());
beforeEach(async () => {
  tenant = await service.tenant();
  const fields = [
    { key: 'title', type: 'text', required: true },
    { key: 'stage', type: 'select', options: ['open', 'won'] },
    { key: 'amount', type: 'decimal', min: 0 },
  ];
  await tenant.post('/api/entities', { name: 'companies', fields });
});

async function open(page: Page, query = ''): Promise<void> {
  await signedIn(page, tenant.key, tenant.slug);
  await page.goto(`/app/t/${tenant.slug}/records/companies${query}`);
}

const choose = (page: Page, name: string, text: string): Promise<void> =>
  page.getByLabel('File', { exact: true }).setInputFiles({ name, mimeType: 'text/plain', buffer: Buffer.from(text) });

async function downloaded(page: Page, act: () => Promise<unknown>): Promise<{ name: string; text: string }> {
  const [download] = await Promise.all([page.waitForEvent('download'), act()]);
  return { name: download.suggestedFilename(), text: await readFile(await download.path(), 'utf8') };
}

test('CSV is read in any pieces, with quotes, line breaks in cells, and the number of each line', () => {
  const text = 'a,b\r\n"x ""1""",\n\n"two\nlines",3\r\nlast,"';
  const expected = [
    { line: 1, cells: ['a', 'b'] },
    { line: 2, cells: ['x "1"', ''] },
    { line: 4, cells: ['two\nlines', '3'] },
    { line: 6, cells: ['last', ''] },
  ];
  for (let size = 1; size <= text.length; size += 1) {
    const reader = new CsvReader(',');
    const records = [];
    for (let at = 0; at < text.length; at += size) records.push(...reader.read(text.slice(at, at + size)));
    expect([...records, ...reader.end()]).toEqual(expected);
  }
});

test('lines written as CSV are read back unchanged; the separator is that of the first line', () => {
  const cells = ['a,b', 'say "x"', '', 'two\r\nlines', ' spaced '];
  expect(new CsvReader(',').read(csvLine(cells))).toEqual([{ line: 1, cells }]);
  expect(['a;b;c\n1,2', 'a\tb', 'a,b', '"a;b;c",d\n'].map(separatorOf)).toEqual([';', '\t', ',', ',']);
});

test('a quote that is never closed is a problem of its line, not the rest of the file in memory', () => {
  const reader = new CsvReader(',');
  reader.read('a\n"never closed\n');
  for (let piece = 0; piece < 20; piece += 1) reader.read('x'.repeat(100_000));
  expect(reader.end()).toEqual([{ line: 2, cells: [], problem: 'is longer than 1 MiB; a quote may not be closed' }]);
});

test('values of files are read as people write them, or are a problem of their line', () => {
  const point = { isCommaDecimal: false, isDayFirst: true };
  const comma = { isCommaDecimal: true, isDayFirst: false };
  const read = (type: Field['type'], text: string, reading = point): unknown => {
    const converted = convert({ type, options: ['Open', 'Won'] } as Field, text, reading);
    return 'problem' in converted ? null : converted.value;
  };
  expect([read('decimal', '1,234.50'), read('decimal', '1.234,50', comma), read('decimal', '12,34')]).toEqual([
    '1234.50',
    '1234.50',
    null,
  ]);
  expect([read('integer', '1 234'), read('integer', '1.5'), read('number', '-.5'), read('integer', 'many')]).toEqual([
    1234,
    null,
    -0.5,
    null,
  ]);
  expect([read('date', '31.12.2026'), read('date', '03/04/2026'), read('date', '03/04/2026', comma)]).toEqual([
    '2026-12-31',
    '2026-04-03',
    '2026-03-04',
  ]);
  expect([read('date', '2026-02-30'), read('datetime', '2026-01-31 9:05 +0100'), read('datetime', '1')]).toEqual([
    null,
    '2026-01-31T08:05:00.000Z',
    null,
  ]);
  expect([read('boolean', 'Yes'), read('boolean', '2'), read('select', 'won'), read('select', 'lost')]).toEqual([
    true,
    null,
    'Won',
    null,
  ]);
  expect([read('multiselect', 'open, Won'), read('text', "'=1+1"), read('text', ' '), read('json', '{')]).toEqual([
    ['Open', 'Won'],
    '=1+1',
    null,
    null,
  ]);
  const types = [['1', '2'], ['1.5'], ['01067'], ['yes', 'no'], ['2026-01-31'], ['a@b.example'], ['https://a.example']];
  expect([...types, ['+49 30 1'], []].map((texts) => guessType(texts, point))).toEqual([
    'integer',
    'decimal',
    'text',
    'boolean',
    'date',
    'email',
    'url',
    'text',
    'text',
  ]);
});

const rowOf = (page: Page, line: string) =>
  page.getByRole('row').filter({ has: page.getByRole('rowheader', { name: line, exact: true }) });

browserTest('a CSV file is checked and imported; its refused lines are corrected, imported again, and taken back', () =>
  visit(service.url, async (page) => {
    await open(page);
    await page.getByRole('button', { name: 'Import' }).first().click();
    await page.getByRole('dialog').waitFor();
    expect(await axe(page)).toEqual([]);
    const lines = Array.from({ length: 4_500 }, (_, at) => `Company ${at + 1};open;${at + 1};note`);
    lines[1] = 'Bad stage;closed;1;"two\nlines"';
    lines[2_999] = ';open;2;no title';
    await choose(page, 'companies.csv', `\uFEFFName;STAGE;amount;Remark\n${lines.join('\n')}\n`);
    await page.getByText('CSV, separated by semicolons').waitFor();
    expect(await page.getByLabel('Field of STAGE').inputValue()).toBe('stage');
    expect(await page.getByLabel('Field of Name').inputValue()).toBe('title');
    expect(await page.getByLabel('Field of Remark').inputValue()).toBe('');
    await page.getByText('closed is not one of the options').waitFor();
    await page.getByRole('cell', { name: 'two lines' }).waitFor();
    await page.getByRole('button', { name: 'Check all lines' }).click();
    await page.getByText('2 lines of 4,500 do not fit. Checked in this page').waitFor();
    await rowOf(page, '3,002').getByText('title: is required').waitFor();
    expect(await axe(page)).toEqual([]);
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('button', { name: 'Import', exact: true }).click();
    await page.getByText('4,498 records imported. 2 lines were refused.').waitFor();
    await rowOf(page, '3').getByText('stage: "closed" is not one of the options').waitFor();
    expect(await axe(page)).toEqual([]);
    const file = await downloaded(page, () => page.getByRole('button', { name: 'Download refused lines' }).click());
    expect(file.name).toBe('companies-refused.csv');
    const [header, ...refused] = new CsvReader(',').read(file.text.slice(1)).map(({ cells }) => cells);
    expect(header).toEqual(['_line', '_reason', 'Name', 'STAGE', 'amount', 'Remark']);
    expect(refused.map(([line, , ...values]) => [line, ...values])).toEqual([
      ['3', 'Bad stage', 'closed', '1', 'two\nlines'],
      ['3002', '', 'open', '2', 'no title'],
    ]);
    await page.getByRole('button', { name: 'Import more' }).click();
    await choose(page, 'mended.csv', file.text.replaceAll('closed', 'won').replace(',,open', ',Mended,open'));
    await page.getByLabel('Field of Name').waitFor();
    expect(await page.getByLabel('Field of _reason').count()).toBe(0);
    await dialog.getByRole('button', { name: 'Import', exact: true }).click();
    await page.getByText('2 records imported.').waitFor();
    await page.getByRole('button', { name: 'Undo' }).click();
    await page.getByRole('dialog', { name: 'Delete the 2 records of this import?' }).waitFor();
    await page.getByRole('button', { name: 'Confirm' }).click();
    await page.getByText('2 records deleted.').waitFor();
    await page.getByRole('button', { name: 'Done' }).click();
    await page.getByText('4,498 records').waitFor();
    const { body } = await tenant.get(`${RECORDS}?filters=${encodeURIComponent('amount = 4500')}`);
    expect(body.data.items[0].title).toBe('Company 4500');
  }),
);

browserTest(
  'a dropped file finds relations by a field of the other entity, and makes fields; Windows-1252 is said',
  () =>
    visit(service.url, async (page) => {
      const code = { key: 'code', type: 'text', unique: true };
      await tenant.post('/api/entities', { name: 'firms', fields: [{ key: 'title', type: 'text' }, code] });
      const firm = await tenant.post('/api/entities/firms/records', { title: 'Müller', code: 'M"1' });
      const fields = [
        { key: 'title', type: 'text', required: true },
        { key: 'firm', type: 'relation', entity: 'firms' },
      ];
      await tenant.post('/api/entities', { name: 'deals', fields });
      await signedIn(page, tenant.key, tenant.slug);
      await page.goto(`/app/t/${tenant.slug}/records/deals?transfer=import`);
      const text = 'Title\tFirm.Code\tWert\nGroß\t"M""1"\t1.234,5\nKlein\tM2\t2,25\nOhne\t\t3\n';
      const dropped = await page.evaluateHandle(
        (bytes) => {
          const data = new DataTransfer();
          data.items.add(new File([new Uint8Array(bytes)], 'deals.tsv'));
          return data;
        },
        [...Buffer.from(text, 'latin1')],
      );
      await page.getByText('Drop it here, or choose it.').dispatchEvent('drop', { dataTransfer: dropped });
      await page.getByText('It is read as Windows-1252').waitFor();
      await page.getByText('CSV, separated by tabs').waitFor();
      expect(await page.getByLabel('Field of Firm.Code').inputValue()).toBe('firm/code');
      await page.getByRole('button', { name: 'Create a field for 1 column' }).click();
      await page.getByLabel('Numbers are written').waitFor();
      await page.getByRole('dialog').getByRole('button', { name: 'Import', exact: true }).click();
      await page.getByText('2 records imported. 1 line was refused.').waitFor();
      await rowOf(page, '3').getByText('firm: none of firms has code M2').waitFor();
      const { items } = (await tenant.get('/api/entities/deals/records?sort=title')).body.data;
      expect(items.map(({ title, firm: id, wert }: Record<string, unknown>) => [title, id, wert])).toEqual([
        ['Groß', firm.body.data.id, '1234.5'],
        ['Ohne', null, '3'],
      ]);
    }),
);

browserTest('pasted NDJSON is imported; what is no JSON object is a refused line', () =>
  visit(service.url, async (page) => {
    await open(page, '?transfer=import');
    const lines = ['{"title":"One","amount":"1.50"}', 'nonsense', '', '{"title":"Two","amount":"x"}'];
    await page.getByLabel('Or paste lines').fill(lines.join('\n'));
    await page.getByRole('button', { name: 'Next' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Import', exact: true }).click();
    await page.getByText('1 record imported. 2 lines were refused.').waitFor();
    await rowOf(page, '2').getByText('is not a JSON object').waitFor();
    await rowOf(page, '4')
      .getByText(/^amount/)
      .waitFor();
    const { body } = await tenant.get(RECORDS);
    expect(body.data.items.map(({ title, amount }: { title: string; amount: string }) => [title, amount])).toEqual([
      ['One', '1.50'],
    ]);
  }),
);

browserTest('an import goes on while one looks at other pages; cancelled between two parts, it can be resumed', () =>
  visit(service.url, async (page) => {
    await open(page, '?transfer=import');
    let release = (): void => undefined;
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    let parts = 0;
    await page.route('**/records/import', async (route) => {
      parts += 1;
      if (parts === 2) await held;
      await route.continue();
    });
    const lines = Array.from({ length: 3_500 }, (_, at) => `Company ${at + 1}`).join('\n');
    await choose(page, 'x.csv', `title\n${lines}`);
    const dialog = page.getByRole('dialog');
    await dialog.getByRole('button', { name: 'Import', exact: true }).click();
    await page.getByText('1,000 records imported. Importing…').waitFor();
    expect(await axe(page)).toEqual([]);
    await page.getByRole('button', { name: 'Continue in the background' }).click();
    await page.getByRole('link', { name: 'Home', exact: true }).click();
    await page.getByRole('heading', { name: 'Latest changes' }).waitFor();
    expect(await axe(page)).toEqual([]);
    await page.getByRole('link', { name: /^Import into companies/ }).click();
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    await page.getByText('Cancelling after this part…').waitFor();
    release();
    await page.getByText('Cancelled. 2,000 records imported.').waitFor();
    await page.getByText('Line 2,002 and those after it were not sent.').waitFor();
    await page.getByRole('button', { name: 'Resume', exact: true }).click();
    await page.getByText('3,500 records imported.').waitFor();
    expect(parts).toBe(4);
    await page.getByRole('button', { name: 'Done' }).click();
    expect(await page.getByRole('link', { name: /^Import into/ }).count()).toBe(0);
  }),
);

browserTest('Export writes the list with its filter and columns, or all of it, as CSV and NDJSON', () =>
  visit(service.url, async (page) => {
    for (const [at, title] of ['=1+1', 'two\nlines', 'Other'].entries()) {
      await tenant.post(RECORDS, { title, stage: 'open', amount: String(at + 1) });
    }
    await page.addInitScript(() =>
      Object.defineProperty(window, 'showSaveFilePicker', { configurable: true, value: undefined }),
    );
    await open(page, `?filters=${encodeURIComponent('amount < 3')}&sort=amount&cols=amount,title`);
    await page.getByText('2 records').waitFor();
    await page.getByRole('button', { name: 'Export' }).click();
    await page.getByRole('dialog').waitFor();
    expect(await axe(page)).toEqual([]);
    await page.getByLabel('Only the columns that are shown').check();
    const start = () => page.getByRole('dialog').getByRole('button', { name: 'Export' }).click();
    const csv = await downloaded(page, start);
    expect(csv.name).toBe('companies.csv');
    const rows = new CsvReader(',').read(csv.text).map(({ cells }) => cells);
    expect(rows[0]).toContain('amount');
    expect(rows[0]).not.toContain('stage');
    expect(rows.length).toBe(3);
    await page.getByText('2 records exported.').waitFor();
    await page.getByRole('button', { name: 'Export' }).click();
    await page.getByLabel('Format').selectOption('ndjson');
    await page.getByLabel('Records', { exact: true }).selectOption('all');
    const all = await downloaded(page, start);
    expect(all.text.trim().split('\n').length).toBe(3);
    await page.getByText('3 records exported.').waitFor();
  }),
);

browserTest(
  'where the browser lets a page write files, an export goes to disk as it comes; cancelled, nothing stays',
  () =>
    visit(service.url, async (page) => {
      await tenant.post(RECORDS, { title: 'One', stage: 'open' });
      await page.addInitScript(() => {
        const value = async ({ suggestedName }: { suggestedName: string }) =>
          (await navigator.storage.getDirectory()).getFileHandle(suggestedName, { create: true });
        Object.defineProperty(window, 'showSaveFilePicker', { configurable: true, value });
      });
      const written = () =>
        page.evaluate(async () => {
          const handle = await (await navigator.storage.getDirectory()).getFileHandle('companies.csv');
          return (await handle.getFile()).text();
        });
      await open(page);
      await page.getByText('1 record', { exact: false }).first().waitFor();
      let release = (): void => undefined;
      const held = new Promise<void>((resolve) => {
        release = resolve;
      });
      await page.route('**/records/export*', async (route) => {
        await held;
        await route.continue().catch(() => undefined);
      });
      await page.getByRole('button', { name: 'Export' }).click();
      const dialog = page.getByRole('dialog');
      await dialog.getByRole('button', { name: 'Export' }).click();
      await dialog.getByText('0 of 1 record, 0 B').waitFor();
      await dialog.getByRole('button', { name: 'Cancel' }).click();
      await dialog.getByText('0 of 1 record, 0 B').waitFor({ state: 'detached' });
      expect(await written()).toBe('');
      release();
      await page.unroute('**/records/export*');
      await dialog.getByRole('button', { name: 'Export' }).click();
      await page.getByText('1 record exported.').waitFor();
      expect(new CsvReader(',').read(await written())).toHaveLength(2);
    }),
);
