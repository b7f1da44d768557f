// The embedded databases of one run of the test suite, as a program: `embedded-databases.ts <count>` creates an empty
// database on disk as a template, and starts `count` in-memory copies of it, in which creating a tenant is three times
// as fast. It prints the template's directory on one line and the addresses on the next, and removes everything when
// standard input ends. scripts/test passes both lines on as TEST_EMBEDDED_TEMPLATE and TEST_EMBEDDED_URLS.
import { randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { Worker } from 'node:worker_threads';
import { PGlite } from '@electric-sql/pglite';
import { vector } from '@electric-sql/pglite-pgvector';

/** Creates the database in the directory; resolves to its image. */
async function createTemplate(directory: string): Promise<Blob> {
  const db = await PGlite.create({ dataDir: directory, extensions: { vector } });
  const image = await db.dumpDataDir('none');
  await db.close();
  return image;
}

/** Starts a database in memory; resolves to its address. */
async function startInMemory(image: Blob): Promise<string> {
  const password = randomBytes(24).toString('hex');
  const worker = new Worker(new URL('./memory-thread.ts', import.meta.url), { workerData: { image, password } });
  return new Promise((resolve, reject) => {
    worker.on('error', reject);
    worker.on('message', ({ port }: { port: number }) =>
      resolve(`postgres://postgres:${password}@127.0.0.1:${port}/postgres`),
    );
  });
}

// Ctrl-C at a terminal reaches this process too, but only the end of standard input stops it.
process.on('SIGINT', () => undefined);
const released = new Promise((resolve) => process.stdin.on('end', resolve).resume());
const directory = await mkdtemp(join(tmpdir(), 'svc-suite-'));
const template = join(directory, 'template');
try {
  await mkdir(template);
  const image = await createTemplate(join(template, 'postgres'));
  const urls = await Promise.all(Array.from({ length: Number(process.argv[2]) }, () => startInMemory(image)));
  console.log(`${template}\n${urls.join(' ')}`);
  await released;
} finally {
  await rm(directory, { recursive: true, force: true });
}
process.exit(0);
