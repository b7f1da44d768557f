// Import beside a bare `copy` of the same records into a table with the same indexes, in records a second. Each round
// fills a new entity and a new table; making the lines is not timed.
// Counts are of records.

import postgres from 'postgres';
import { Api } from './api.ts';
import { itemTable } from './bare-store.ts';
import { item } from './dataset.ts';
import { type FigureRow, interleaved, type RowDefinition } from './figure-rows.ts';
import type { Bench } from './run.ts';
import { createItems, importItems } from './service.ts';

const RECORDS = 20_000;
const DEFINITION: RowDefinition = {
  id: 'import-copy',
  label: `import of ${RECORDS.toLocaleString('en-US')} records`,
  against: 'bare copy, same indexes',
  unit: 'records/s',
  must: 0.4,
  goal: 0.6,
  atLeast: true,
};

export function importRow({ fixture, bare, options }: Bench): Promise<FigureRow> {
  const api = new Api(fixture.server.port, { key: fixture.key });
  return interleaved(
    DEFINITION,
    options.rounds,
    (round) => copied(bare.url, `imported_${round}`, bare.people),
    async (round) => {
      await createItems(api, `imported_${round}`);
      const seconds = await importItems(api, `imported_${round}`, RECORDS, fixture.people);
      if (seconds === null) throw new Error('the service has no import');
      return RECORDS / seconds;
    },
  );
}

async function copied(url: string, table: string, people: readonly string[]): Promise<number> {
  const lines = Array.from(
    { length: RECORDS },
    (_, at) => `${Bun.randomUUIDv7()}\t${JSON.stringify(item(at, RECORDS, people))}\n`,
  ).join('');
  const sql = postgres(url, { max: 1, onnotice: () => {} });
  await sql.unsafe(itemTable(table));
  const begun = performance.now();
  const copy = await sql`copy ${sql(table)} (id, data) from stdin`.writable();
  await new Promise<void>((resolve, reject) => {
    copy.once('finish', resolve).once('error', reject);
    copy.end(lines);
  });
  const seconds = (performance.now() - begun) / 1_000;
  await sql.unsafe(`drop table ${table}`);
  await sql.end();
  return RECORDS / seconds;
}
