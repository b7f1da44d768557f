// A webhook receiver for tests: an HTTP server on a free loopback port that records its requests, with their start and
// end, and answers as `answer` says. Times are milliseconds since 1970.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Json } from './service.ts';

export interface Received {
  path: string;
  headers: Record<string, string>;
  /** The raw bytes as text. */
  text: string;
  body: Json;
  from: number;
  to: number;
}

export interface Receiver {
  url: string;
  received: Received[];
  /** Answers a request; may be replaced. Resolves when the answer is complete. */
  answer: (request: Received, response: ServerResponse) => void | Promise<void>;
  /** Resolves once `count` requests in all have been answered; rejects after `withinMs`. */
  waitFor(count: number, withinMs?: number): Promise<Received[]>;
  stop(): Promise<void>;
}

export async function startReceiver(status = 200): Promise<Receiver> {
  const receiver: Receiver = {
    url: '',
    received: [],
    answer: (_, response) => void response.writeHead(status).end('thanks'),
    waitFor: (count, withinMs = 60_000) => waitFor(receiver, count, withinMs),
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
  const server: Server = createServer((request, response) => void handleRequest(receiver, request, response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  receiver.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return receiver;
}

async function handleRequest(receiver: Receiver, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const from = Date.now();
  const text = await readBody(request);
  // An incomplete request does not count: its sender was killed.
  if (text === null) return void response.destroy();
  const headers = request.headers as Record<string, string>;
  const received: Received = { path: request.url ?? '', headers, text, body: JSON.parse(text), from, to: 0 };
  response.on('error', () => response.destroy());
  await receiver.answer(received, response);
  received.to = Date.now();
  receiver.received.push(received);
}

/** Null if the connection broke before the end. */
async function readBody(request: IncomingMessage): Promise<string | null> {
  const chunks: Uint8Array[] = [];
  try {
    for await (const chunk of request) chunks.push(chunk as Uint8Array);
  } catch (error) {
    if (request.complete) throw error;
    return null;
  }
  return request.complete ? Buffer.concat(chunks).toString() : null;
}

async function waitFor(receiver: Receiver, count: number, withinMs: number): Promise<Received[]> {
  const until = Date.now() + withinMs;
  while (receiver.received.length < count) {
    if (Date.now() > until) throw new Error(`${receiver.received.length} of ${count} requests in ${withinMs} ms`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  return receiver.received;
}
