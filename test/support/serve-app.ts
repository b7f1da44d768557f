// A small application on which the tests of src/serve run, on both runtimes. As a program it prints its port as one
// JSON line and stops on the line "stop" or "force" from standard input.
import { createInterface } from 'node:readline';
import type { ServiceError } from '../../src/errors.ts';
import type { Running, SocketHandler } from '../../src/serve/contract.ts';
import { errorResponse } from '../../src/serve/request.ts';
import { serve } from '../../src/serve/serve.ts';

export const MAX_BODY = 1000;
export const MAX_FRAME = 64 * 1024;

interface State {
  name: string;
}

/** Events, which tests read at `/log`. */
export const log: string[] = [];

const socket: SocketHandler<State> = {
  path: '/ws',
  maxFrameBytes: MAX_FRAME,
  maxBufferedBytes: 1024 * 1024,
  idleSeconds: 8,
  upgrade: async (request, address) => {
    const name = new URL(request.url).searchParams.get('name') ?? '';
    if (name === 'refused') return new Response('refused', { status: 403 });
    return { name: `${name}@${address}` };
  },
  hold: () => () => {},
  open: (ws) => {
    log.push(`open ${ws.data.name}`);
    if (ws.data.name.startsWith('broken')) throw new Error('open failed');
  },
  message: async (ws, text) => {
    if (text === 'fail') throw new Error('message failed');
    if (text === 'bye') return ws.close(4401, 'bye');
    if (text === 'flood') return flood(ws.send.bind(ws));
    if (text.startsWith('burst')) for (let i = 0; i < Number(text.slice(5)); i++) ws.send('x'.repeat(1000));
    const wait = text.startsWith('slow') ? 50 : 0;
    await new Promise((resolve) => setTimeout(resolve, wait));
    ws.send(`echo ${text.slice(0, 50)}`);
  },
  close: (ws, code) => {
    log.push(`close ${ws.data.name} ${code}`);
  },
};

async function flood(send: (text: string) => boolean): Promise<void> {
  for (let i = 0; i < 2000; i++) {
    if (!send('f'.repeat(60_000))) return void log.push('flood stopped');
    if (i % 10 === 9) await new Promise((resolve) => setTimeout(resolve, 0));
  }
  log.push('flood went through');
}

let busyRequests = 0;

/** Answers with how many such requests have come in before. */
function busy(ms: number): Response {
  const end = performance.now() + ms;
  while (performance.now() < end);
  return new Response(String(busyRequests++));
}

async function answer(request: Request, address: string, refusal?: ServiceError): Promise<Response> {
  if (refusal !== undefined) return errorResponse(refusal.ecode, refusal.message);
  const { pathname, searchParams } = new URL(request.url);
  if (pathname === '/busy') return busy(Number(searchParams.get('ms')));
  if (pathname === '/address') return new Response(address);
  if (pathname === '/log') return Response.json(log);
  if (pathname === '/fail') throw new Error('secret detail');
  if (pathname === '/slow') {
    log.push('slow begins');
    await new Promise((resolve) => setTimeout(resolve, 600));
  }
  if (pathname === '/endless') {
    log.push('endless begins');
    await new Promise(() => undefined);
  }
  if (pathname === '/size') return size(request);
  return new Response(pathname, { status: pathname === '/slow' ? 200 : 404 });
}

async function size(request: Request): Promise<Response> {
  try {
    return new Response(String((await request.arrayBuffer()).byteLength));
  } catch (error) {
    return new Response(error instanceof Error ? error.message : String(error), { status: 413 });
  }
}

export function start(port: number, reusePort = false): Promise<Running> {
  return serve({
    hostname: '127.0.0.1',
    port,
    maxBody: MAX_BODY,
    idleSeconds: 30,
    silentSeconds: 4,
    reusePort,
    fetch: answer,
    report: (error) => log.push(`report ${error instanceof Error ? error.message : error}`),
    socket,
  });
}

if (import.meta.main) {
  const running = await start(Number(process.argv[2] ?? 0), process.argv[3] === 'reuse').catch((error: Error) => {
    console.log(JSON.stringify({ error: error.message }));
    process.exit(1);
  });
  console.log(JSON.stringify({ port: running.port }));
  createInterface({ input: process.stdin }).on('line', (line) => {
    void running.stop(line === 'force').then(() => {
      console.log(JSON.stringify({ stopped: true }));
      process.exit(0);
    });
  });
}
