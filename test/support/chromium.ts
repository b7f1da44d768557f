// Real web pages for tests: a small server for the page's files, and a headless Chromium that opens it. The page reports
// by POST to its own server. Where no Chromium is installed, `chromiumPath` is undefined.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import type { Json } from './service.ts';
import { until } from './streams.ts';

const NAMES = ['chromium', 'chromium-browser', 'google-chrome'];

export const chromiumPath: string | undefined = (process.env.PATH ?? '')
  .split(':')
  .flatMap((folder) => NAMES.map((name) => join(folder, name)))
  .find((path) => existsSync(path));

export interface PageServer {
  port: number;
  /** What pages have reported so far. */
  reports: Json[];
  /** The first report that satisfies the condition. */
  reported(isIt: (report: Json) => boolean, withinMs?: number): Promise<Json>;
  close(): Promise<void>;
}

/** Serves these files, by path, and takes reports at /report. */
export async function servePages(files: Readonly<Record<string, string>>): Promise<PageServer> {
  const reports: Json[] = [];
  const server = createServer(async (request, response) => {
    const { pathname } = new URL(request.url ?? '/', 'http://page');
    if (request.method === 'POST') {
      let text = '';
      for await (const chunk of request) text += chunk;
      reports.push(JSON.parse(text));
      response.writeHead(204).end();
      return;
    }
    const file = files[pathname];
    const type = pathname.endsWith('.mjs') ? 'text/javascript' : 'text/html; charset=utf-8';
    response.writeHead(file === undefined ? 404 : 200, { 'content-type': type }).end(file ?? '');
  });
  server.listen(0);
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    reports,
    reported: async (isIt, withinMs = 60_000) => {
      await until(
        () => reports.some(isIt),
        withinMs,
        () => `not reported; only: ${JSON.stringify(reports)}`,
      );
      return reports.find(isIt);
    },
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

/** Opens an address in a browser of its own; `close` ends it. */
export async function openPage(address: string): Promise<{ close(): Promise<void> }> {
  const profile = await mkdtemp(join(tmpdir(), 'svc-page-'));
  const flags = ['--headless=new', '--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-dev-shm-usage'];
  const child: ChildProcess = spawn(chromiumPath ?? '', [...flags, `--user-data-dir=${profile}`, address], {
    stdio: 'ignore',
    env: { PATH: process.env.PATH ?? '', HOME: profile },
  });
  return {
    close: async () => {
      if (child.exitCode === null && child.signalCode === null) {
        const exited = once(child, 'exit');
        child.kill('SIGTERM');
        await exited;
      }
      await rm(profile, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}
