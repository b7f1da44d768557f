// The embedded databases of a whole run of the test suite: `shared-databases.ts <count>` makes one that only serves to
// be copied, and starts as many copies of it. Prints the directory of the first on one line and the addresses of the
// others on the next; stops and removes them all when standard input ends. Started by scripts/test, which hands both
// lines to the test files as EMBEDDED_TEMPLATE and SHARED_TEST_DATABASE_URLS.
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';

import { startEmbedded } from '../../src/runtime/embedded.ts';
import { createLog } from '../../src/runtime/log.ts';

// Ctrl-C at a terminal reaches this process too; it is the end of the input that counts.
process.on('SIGINT', () => undefined);
const released = new Promise((resolve) => process.stdin.on('end', resolve).resume());
const log = createLog({ level: 'warn' });
const directory = await mkdtemp(join(tmpdir(), 'svc-suite-'));
const template = join(directory, 'template');
try {
  await (await startEmbedded(template, log)).stop();
  const copies = Array.from({ length: Number(process.argv[2]) }, async (_, i) => {
    const dataDir = join(directory, String(i + 1));
    await cp(template, dataDir, { recursive: true });
    return startEmbedded(dataDir, log);
  });
  const databases = await Promise.all(copies);
  console.log(`${template}\n${databases.map(({ url }) => url).join(' ')}`);
  await released;
  await Promise.all(databases.map((database) => database.stop()));
} finally {
  await rm(directory, { recursive: true, force: true });
}
process.exit(0);
