// The embedded databases of one run of the test suite, as a program: `embedded-databases.ts <count>` creates a template,
// starts `count` copies of it, and prints the template's directory on one line and the copies' addresses on the next.
// It stops and removes them all when standard input ends. scripts/test passes both lines on to the test files as
// TEST_EMBEDDED_TEMPLATE and TEST_EMBEDDED_URLS.
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';

import { startEmbedded } from '../../src/runtime/embedded.ts';
import { createLog } from '../../src/runtime/log.ts';

// Ctrl-C at a terminal reaches this process too, but only the end of standard input stops it.
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
