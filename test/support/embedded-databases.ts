// The embedded databases of one run of the test suite, as a program: `embedded-databases.ts <count>` starts `count`
// databases in memory, where creating a tenant takes a third of the time that it takes on disk, and creates an empty
// one on disk as a template. It prints the template's directory on one line and the addresses on the next, and removes
// everything when standard input ends. scripts/test passes both lines on as TEST_EMBEDDED_TEMPLATE and
// TEST_EMBEDDED_URLS.
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { Worker } from 'node:worker_threads';

import { startEmbedded } from '../../src/runtime/embedded.ts';
import { createLog } from '../../src/runtime/log.ts';

const ENGINE = new URL('../../src/runtime/embedded/engine.ts', import.meta.url);

/** Starts an engine as embedded.ts does, but without files; resolves to its address. */
async function startInMemory(): Promise<string> {
  const password = randomBytes(24).toString('hex');
  const worker = new Worker(ENGINE, { workerData: { directory: 'memory://', port: 0, password } });
  return new Promise((resolve, reject) => {
    worker.on('error', reject);
    worker.on('message', ({ port, error }: { port?: number; error?: string }) => {
      if (error !== undefined) console.error(error);
      if (port === undefined) reject(new Error(error));
      else resolve(`postgres://postgres:${password}@127.0.0.1:${port}/postgres`);
    });
  });
}

async function createTemplate(directory: string): Promise<void> {
  const embedded = await startEmbedded(directory, createLog({ level: 'warn' }));
  await embedded.stop();
}

// Ctrl-C at a terminal reaches this process too, but only the end of standard input stops it.
process.on('SIGINT', () => undefined);
const released = new Promise((resolve) => process.stdin.on('end', resolve).resume());
const directory = await mkdtemp(join(tmpdir(), 'svc-suite-'));
const template = join(directory, 'template');
try {
  const databases = Array.from({ length: Number(process.argv[2]) }, startInMemory);
  const [urls] = await Promise.all([Promise.all(databases), createTemplate(template)]);
  console.log(`${template}\n${urls.join(' ')}`);
  await released;
} finally {
  await rm(directory, { recursive: true, force: true });
}
process.exit(0);
