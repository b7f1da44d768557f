// The embedded databases of one run of the test suite, as a program. It creates an empty database on disk as a template, and
// makes in-memory copies of it, in which creating a tenant is three times as fast: `GET /<worker>` responds with the address of
// the worker's database, a new one when that of its last files has grown large. It prints the template's directory on one line
// and the address to ask on the next, and removes everything when standard input ends. scripts/test passes both lines on as
// TEST_EMBEDDED_TEMPLATE and TEST_EMBEDDED_DATABASES.
import { randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { Worker } from 'node:worker_threads';
import { PGlite } from '@electric-sql/pglite';
import { vector } from '@electric-sql/pglite-pgvector';
import postgres from 'postgres';

/** Those of about 160 tenants. With 200 tenants one more takes 170 ms, with 600 it takes 460. */
const RELATIONS_MAX = 6_000;

interface Database {
  url: string;
  thread: Worker;
}

/** Creates the database in the directory; resolves to its image. */
async function createTemplate(directory: string): Promise<Blob> {
  const db = await PGlite.create({ dataDir: directory, extensions: { vector } });
  const image = await db.dumpDataDir('none');
  await db.close();
  return image;
}

/** Starts a database in memory. */
async function startInMemory(image: Blob): Promise<Database> {
  const password = randomBytes(24).toString('hex');
  const thread = new Worker(new URL('./memory-thread.ts', import.meta.url), { workerData: { image, password } });
  const port = await new Promise<number>((resolve, reject) => {
    thread.on('error', reject);
    thread.on('message', (message: { port: number }) => resolve(message.port));
  });
  return { url: `postgres://postgres:${password}@127.0.0.1:${port}/postgres`, thread };
}

async function isLarge({ url }: Database): Promise<boolean> {
  const client = postgres(url, { max: 1 });
  try {
    const [row] = await client<{ count: number }[]>`select count(*)::int as count from pg_class`;
    return (row?.count ?? 0) > RELATIONS_MAX;
  } finally {
    await client.end();
  }
}

const databases = new Map<string, Database>();

/** The address of the worker's database. A worker runs one file at a time, so nothing uses the one that it had. */
async function databaseOf(worker: string, image: Blob): Promise<string> {
  const known = databases.get(worker);
  if (known !== undefined && !(await isLarge(known))) return known.url;
  await known?.thread.terminate();
  const started = await startInMemory(image);
  databases.set(worker, started);
  return started.url;
}

// Ctrl-C at a terminal reaches this process too, but only the end of standard input stops it.
process.on('SIGINT', () => undefined);
const released = new Promise((resolve) => process.stdin.on('end', resolve).resume());
const directory = await mkdtemp(join(tmpdir(), 'svc-suite-'));
const template = join(directory, 'template');
try {
  await mkdir(template);
  const image = await createTemplate(join(template, 'postgres'));
  const server = createServer((request, response) => {
    databaseOf(request.url ?? '', image).then(
      (url) => response.end(url),
      (error: unknown) => response.writeHead(500).end(String(error)),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  console.log(`${template}\nhttp://127.0.0.1:${(server.address() as AddressInfo).port}`);
  await released;
} finally {
  await rm(directory, { recursive: true, force: true });
}
process.exit(0);
