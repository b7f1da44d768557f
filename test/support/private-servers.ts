// Private Postgres and Redis servers, for tests that kill them. Each has a new temporary directory and a free loopback
// port. `undefined` where the server is not installed.
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { existsSync } from 'node:fs';
import { chown, mkdtemp, readdir, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { promisify } from 'node:util';
import postgres from 'postgres';

const run = promisify(execFile);

export interface PrivatePostgres {
  url: string;
  stop(mode?: 'fast' | 'immediate'): Promise<void>;
  start(): Promise<void>;
  /** Stops the server if it runs and removes its files. */
  remove(): Promise<void>;
}

/** Undefined also if the server does not offer the `extension` that is needed. */
export async function privatePostgres(needs: { extension?: string } = {}): Promise<PrivatePostgres | undefined> {
  const server = await startPostgres();
  if (server === undefined || needs.extension === undefined) return server;
  if (await offers(server.url, needs.extension)) return server;
  await server.remove();
  return undefined;
}

async function offers(url: string, extension: string): Promise<boolean> {
  const sql = postgres(url, { max: 1 });
  const found = await sql`select from pg_available_extensions where name = ${extension}`;
  await sql.end();
  return found.length > 0;
}

async function startPostgres(): Promise<PrivatePostgres | undefined> {
  const bin = await postgresBinaries();
  if (bin === undefined) return undefined;
  const directory = await mkdtemp(join(tmpdir(), 'private-postgres-'));
  const as = await postgresUser(directory);
  const data = join(directory, 'data');
  await run(
    join(bin, 'initdb'),
    ['-D', data, '-U', 'postgres', '-A', 'trust', '-N', '-E', 'UTF8', '--locale=C.UTF-8'],
    as,
  );
  const settings = `-c listen_addresses=127.0.0.1 -c unix_socket_directories=${directory} -c max_connections=60`;
  const control = (...parameters: string[]) => run(join(bin, 'pg_ctl'), ['-D', data, '-w', ...parameters], as);
  const startAt = async (port: number) =>
    void (await control('start', '-l', join(directory, 'log'), '-o', `-p ${port} ${settings}`));
  const stop = async (mode = 'fast') => void (await control('stop', '-m', mode));
  const port = await onFreePort(startAt);
  return {
    url: `postgres://postgres@127.0.0.1:${port}/postgres`,
    start: () => startAt(port),
    stop,
    remove: async () => {
      if (existsSync(join(data, 'postmaster.pid'))) await stop('immediate');
      await rm(directory, { recursive: true, force: true });
    },
  };
}

async function postgresBinaries(): Promise<string | undefined> {
  const root = '/usr/lib/postgresql';
  const versions = existsSync(root) ? await readdir(root) : [];
  const found = versions.map((version) => join(root, version, 'bin')).filter((bin) => existsSync(join(bin, 'initdb')));
  const inPath = (process.env.PATH ?? '').split(':').filter((bin) => existsSync(join(bin, 'initdb')));
  return [...found, ...inPath].at(0);
}

/** Postgres refuses to run as root: it runs as the user that its package created. */
async function postgresUser(directory: string): Promise<{ cwd: string; uid?: number; gid?: number }> {
  if (process.getuid?.() !== 0) return { cwd: directory };
  const { stdout } = await run('id', ['-u', 'postgres']);
  const group = await run('id', ['-g', 'postgres']);
  const ids = { uid: Number(stdout), gid: Number(group.stdout) };
  await chown(directory, ids.uid, ids.gid);
  return { cwd: directory, ...ids };
}

export interface PrivateRedis {
  url: string;
  start(): Promise<void>;
  /** SIGKILL, as in a crash. */
  kill(): Promise<void>;
  /** SIGSTOP and SIGCONT: it accepts connections and says nothing. */
  freeze(): void;
  thaw(): void;
  remove(): Promise<void>;
}

export async function privateRedis(): Promise<PrivateRedis | undefined> {
  const server = ['/usr/bin/redis-server', '/usr/local/bin/redis-server', '/usr/bin/valkey-server'].find(existsSync);
  if (server === undefined) return undefined;
  const directory = await mkdtemp(join(tmpdir(), 'private-redis-'));
  let child: ChildProcess | undefined;
  const startAt = async (port: number) => {
    child = spawn(server, ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--dir', directory]);
    await new Promise<void>((resolve, reject) => {
      let said = '';
      child?.stdout?.on('data', (text) => {
        said += String(text);
        if (said.includes('eady to accept connections')) resolve();
      });
      child?.once('exit', (code) => reject(new Error(`redis-server ended with ${code}`)));
    });
  };
  const kill = async () => {
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const gone = new Promise((resolve) => child?.once('exit', resolve));
    child.kill('SIGKILL');
    await gone;
  };
  const port = await onFreePort(startAt);
  return {
    url: `redis://127.0.0.1:${port}`,
    start: () => startAt(port),
    kill,
    freeze: () => void child?.kill('SIGSTOP'),
    thaw: () => void child?.kill('SIGCONT'),
    remove: async () => {
      await kill();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

/** Starts a server for the first time, on another port if the free one was taken meanwhile. */
async function onFreePort(startAt: (port: number) => Promise<void>): Promise<number> {
  for (let tries = 1; ; tries++) {
    const port = await freePort();
    try {
      await startAt(port);
      return port;
    } catch (error) {
      if (tries === 5) throw error;
    }
  }
}

/** A free port outside the ephemeral range, whose ports the system could assign while the server is stopped. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(10_000, 30_000);
    const server = createServer();
    const isFree = await new Promise<boolean>((resolve) => {
      server.once('error', () => resolve(false));
      server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
    });
    if (isFree) return port;
  }
}
