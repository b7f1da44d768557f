// The service as a Deno process: the same application, which keeps its data through SIGTERM and SIGKILL.
// Contract: decisions#configuration, decisions#shutdown.
import { afterAll, expect, test } from 'bun:test';
import { killDescendants } from './support/descendants.ts';
import { clientOf } from './support/service.ts';
import { DENO_START, endAll, preparedDataDir, printedKey, startProcess } from './support/started.ts';

afterAll(endAll);

test('the same application serves records, keeps them through SIGTERM and SIGKILL, and ends with code 0', async () => {
  const dataDir = await preparedDataDir();
  const first = startProcess(DENO_START, { DATA_DIR: dataDir });
  const address = await first.address;
  const key = await printedKey(first);
  const client = clientOf(address, { 'x-api-key': key });
  const created = await client.post('/api/entities/companies/records', { title: 'Deno Café' });
  expect(created.status).toBe(201);
  const listed = await client.get('/api/entities/companies/records?filters=title%20=%20%22Deno%20Café%22');
  expect(listed.body.data.items).toEqual([created.body.data]);
  expect(await first.end()).toMatchObject({ code: 0 });

  const second = startProcess(DENO_START, { DATA_DIR: dataDir });
  const again = clientOf(await second.address, { 'x-api-key': key });
  const further = await again.post('/api/entities/companies/records', { title: 'Deno Café' });
  expect((await again.get('/api/entities/companies/records')).body.data.total).toBe(42);
  await killDescendants(second.pid);
  await second.ended;

  const third = startProcess(DENO_START, { DATA_DIR: dataDir });
  const last = clientOf(await third.address, { 'x-api-key': key });
  expect((await last.get(`/api/entities/companies/records/${further.body.data.id}`)).status).toBe(200);
  await third.end();
});
