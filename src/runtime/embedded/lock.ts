// One process per data directory: a lock file that names a loopback port, at which its holder says a token. A lock
// nobody listens for is stale, whatever became of the process number in it, and is taken over; where somebody listens
// and says nothing, that may be a holder too busy to, as long as there is a process of that number.
// Times are milliseconds. Fails with a message for people when the directory is in use.
import { randomBytes } from 'node:crypto';
import { link, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { type AddressInfo, createConnection, createServer, type Server } from 'node:net';
import process from 'node:process';

interface Holder {
  pid: number;
  port: number;
  token: string;
}

const ANSWER_WITHIN_MS = 3_000;
const ATTEMPTS = 5;

/** Takes the lock file; resolves to its release. Rejects when another process holds it. */
export async function lockFile(path: string): Promise<() => Promise<void>> {
  const token = randomBytes(16).toString('hex');
  const server = await answerWith(token);
  const mine: Holder = { pid: process.pid, port: (server.address() as AddressInfo).port, token };
  try {
    await takeOver(path, mine);
  } catch (error) {
    server.close();
    throw error;
  }
  return async () => {
    await rm(path, { force: true });
    server.close();
  };
}

async function takeOver(path: string, mine: Holder): Promise<void> {
  const draft = `${path}.${mine.token}`;
  await writeFile(draft, JSON.stringify(mine), { mode: 0o600 });
  try {
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      if (await linked(draft, path)) return;
      const holder = await readHolder(path);
      if (holder && (await answers(holder))) {
        throw new Error(`process ${holder.pid} already uses this data directory (${path}); stop it or set DATA_DIR`);
      }
      await discard(path, holder, draft);
    }
    throw new Error(`the lock ${path} changes hands all the time`);
  } finally {
    await rm(draft, { force: true });
  }
}

/** A link appears with its whole content or not at all, and only where nothing is. */
async function linked(draft: string, path: string): Promise<boolean> {
  try {
    await link(draft, path);
    return true;
  } catch (error) {
    if (isCode(error, 'EEXIST')) return false;
    throw error;
  }
}

async function readHolder(path: string): Promise<Holder | undefined> {
  try {
    return JSON.parse(await readFile(path, 'utf8')) as Holder;
  } catch (error) {
    if (error instanceof SyntaxError || isCode(error, 'ENOENT')) return undefined;
    throw error;
  }
}

/** Moves a stale lock away; puts it back when somebody else has renewed it in between. */
async function discard(path: string, stale: Holder | undefined, draft: string): Promise<void> {
  const aside = `${draft}.stale`;
  try {
    await rename(path, aside);
  } catch (error) {
    if (isCode(error, 'ENOENT')) return;
    throw error;
  }
  const moved = await readHolder(aside);
  if (moved && moved.token !== stale?.token) await linked(aside, path);
  await rm(aside, { force: true });
}

function answerWith(token: string): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => {
      // Who asks and leaves early is of no interest.
      socket.on('error', () => socket.destroy());
      socket.end(token);
    });
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => resolve(server));
    server.unref();
  });
}

function answers(holder: Holder): Promise<boolean> {
  return new Promise((resolve) => {
    let said = '';
    const socket = createConnection({ host: '127.0.0.1', port: holder.port });
    const done = (isBusy = false): void => {
      clearTimeout(timer);
      socket.destroy();
      resolve(said === holder.token || isBusy);
    };
    // What has arrived while this process itself was held up gets its turn first.
    const timer = setTimeout(() => setTimeout(() => done(said === '' && isRunning(holder.pid)), 0), ANSWER_WITHIN_MS);
    socket.on('data', (bytes) => {
      said += bytes.toString();
    });
    socket.on('end', () => done());
    socket.on('error', () => done());
  });
}

/** Whether there is a process of this number, of this user's or another's. */
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
