// Locks a data directory for one process: a file that names a loopback port, where the owner answers with a
// token. A lock whose port does not answer is stale and is taken over, even if its process id is in use. A port that
// accepts but stays silent may belong to a busy owner; it counts as alive while its process exists.
// Times are milliseconds. Fails with a message for operators when the directory is in use.
import { randomBytes } from 'node:crypto';
import { link, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { type AddressInfo, createConnection, createServer, type Server } from 'node:net';
import process from 'node:process';

interface Owner {
  pid: number;
  port: number;
  token: string;
}

const ANSWER_WITHIN_MS = 3_000;
const ATTEMPTS = 5;

/** Takes the lock; resolves to a function that releases it. Rejects when another process holds it. */
export async function lockFile(path: string): Promise<() => Promise<void>> {
  const token = randomBytes(16).toString('hex');
  const server = await answerWith(token);
  const own: Owner = { pid: process.pid, port: (server.address() as AddressInfo).port, token };
  try {
    await takeOver(path, own);
  } catch (error) {
    server.close();
    throw error;
  }
  return async () => {
    await rm(path, { force: true });
    server.close();
  };
}

async function takeOver(path: string, own: Owner): Promise<void> {
  const draft = `${path}.${own.token}`;
  await writeFile(draft, JSON.stringify(own), { mode: 0o600 });
  try {
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      if (await linked(draft, path)) return;
      const owner = await readOwner(path);
      if (owner && (await answers(owner))) {
        throw new Error(`process ${owner.pid} already uses this data directory (${path}); stop it or set DATA_DIR`);
      }
      await discard(path, owner, draft);
    }
    throw new Error(`the lock ${path} could not be taken: other processes keep taking it`);
  } finally {
    await rm(draft, { force: true });
  }
}

/** A link is created atomically with its content, and only where no file exists. */
async function linked(draft: string, path: string): Promise<boolean> {
  try {
    await link(draft, path);
    return true;
  } catch (error) {
    if (isCode(error, 'EEXIST')) return false;
    throw error;
  }
}

async function readOwner(path: string): Promise<Owner | undefined> {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as Owner;
  } catch (error) {
    if (error instanceof SyntaxError || isCode(error, 'ENOENT')) return undefined;
    throw error;
  }
}

/** Removes a stale lock; restores it when another process has replaced it meanwhile. */
async function discard(path: string, stale: Owner | undefined, draft: string): Promise<void> {
  const aside = `${draft}.stale`;
  try {
    await rename(path, aside);
  } catch (error) {
    if (isCode(error, 'ENOENT')) return;
    throw error;
  }
  const moved = await readOwner(aside);
  if (moved && moved.token !== stale?.token) await linked(aside, path);
  await rm(aside, { force: true });
}

function answerWith(token: string): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => {
      // A client that closes early is ignored.
      socket.on('error', () => socket.destroy());
      socket.end(token);
    });
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => resolve(server));
    server.unref();
  });
}

function answers(owner: Owner): Promise<boolean> {
  return new Promise((resolve) => {
    let received = '';
    const socket = createConnection({ host: '127.0.0.1', port: owner.port });
    const done = (isBusy = false): void => {
      clearTimeout(timer);
      socket.destroy();
      resolve(received === owner.token || isBusy);
    };
    // The inner timeout gives the socket a chance to deliver data that arrived while the event loop was stalled.
    const timer = setTimeout(
      () => setTimeout(() => done(received === '' && isRunning(owner.pid)), 0),
      ANSWER_WITHIN_MS,
    );
    socket.on('data', (bytes) => {
      received += bytes.toString();
    });
    socket.on('end', () => done());
    socket.on('error', () => done());
  });
}

/** Whether a process with this id exists, of any user. */
function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return !isCode(error, 'ESRCH');
  }
}

function isCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code;
}
