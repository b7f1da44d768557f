// Readers of the feed during the faults: long polls, an event stream and a WebSocket, each from its last cursor, cut at
// random. What each has read in the end is compared with the events in the database: every committed change once, those of a
// record in order. Times are milliseconds.
// Contract: feed#guarantee, feed#resume.
import { setTimeout as delay } from 'node:timers/promises';
import postgres from 'postgres';
import type { Endpoint } from './load.ts';

const RETRY_MS = 100;
/** A connection is cut after a random time up to this, unless it ends before. */
const CUT_MS = 3_000;

export interface Reading {
  name: string;
  cursor: string;
  /** The number of the last change read, by mark; and of the changes of each record. */
  seen: Set<string>;
  lastOf: Map<string, number>;
  doubled: number;
  disordered: number;
  connections: number;
  /** Refusals, and items that are no change of a record. */
  unexpected: string[];
}

export interface FeedVerdict {
  received: number;
  lost: number;
  doubled: number;
  disordered: number;
  connections: number;
  unexpected: string[];
}

type Read = (endpoint: Endpoint, reading: Reading, signal: AbortSignal) => Promise<void>;
const READS: Record<string, Read> = { poll: readPage, sse: readStream, ws: readSocket };

/** Starts the readers from now on; `stop` ends them once they have read all that is committed, or after `withinMs`. */
export async function readFeed(endpoint: Endpoint, databaseUrl: string) {
  const answer = await fetch(`${endpoint.url()}/api/changes`, { headers: { authorization: `Bearer ${endpoint.key}` } });
  const { nextCursor } = ((await answer.json()) as { data: { nextCursor: string } }).data;
  const stopped = new AbortController();
  const readings = Object.keys(READS).map(
    (name): Reading => ({
      name,
      cursor: nextCursor,
      seen: new Set(),
      lastOf: new Map(),
      doubled: 0,
      disordered: 0,
      connections: 0,
      unexpected: [],
    }),
  );
  const running = readings.map((reading) => follow(endpoint, reading, stopped.signal));
  const stop = async (withinMs: number): Promise<Record<string, FeedVerdict>> => {
    const committed = await committedMarks(databaseUrl);
    const isBehind = (): boolean => readings.some(({ seen }) => committed.some((mark) => !seen.has(mark)));
    for (const until = Date.now() + withinMs; isBehind() && Date.now() < until; ) await delay(100);
    stopped.abort();
    await Promise.all(running);
    return Object.fromEntries(
      readings.map(({ name, seen, doubled, disordered, connections, unexpected }) => {
        const lost = committed.filter((mark) => !seen.has(mark)).length;
        const unknown = [...seen].filter((mark) => !committed.includes(mark));
        const others = [...unexpected, ...unknown.map((mark) => `not committed: ${mark}`)];
        return [name, { received: seen.size, lost, doubled, disordered, connections, unexpected: others }];
      }),
    );
  };
  return { stop };
}

/** The marks of all events, by the number of the event. */
async function committedMarks(url: string): Promise<string[]> {
  const sql = postgres(url, { max: 1 });
  const rows = await sql<{ data: Record<string, unknown> }[]>`
    select data from platform.events where entity = 'entry' and type like 'record.%' order by seq`;
  await sql.end();
  return rows.map(({ data }) => Object.values(data).find((value) => typeof value === 'string') as string);
}

async function follow(endpoint: Endpoint, reading: Reading, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const cut = AbortSignal.any([signal, AbortSignal.timeout(1 + Math.random() * CUT_MS)]);
    reading.connections++;
    try {
      await READS[reading.name]?.(endpoint, reading, cut);
    } catch (cause) {
      // Cut, killed or refused while something is down.
      if (cause instanceof Refused) reading.unexpected.push(cause.message);
      await delay(RETRY_MS);
    }
  }
}

/** A refusal that no fault explains. */
class Refused extends Error {}

interface Item {
  type: string;
  record: string;
  data: { mark: string; n: number };
}

function take(reading: Reading, { type, record, data }: Item, cursor: string): void {
  if (data.mark === undefined) {
    reading.unexpected.push(type);
    return;
  }
  reading.cursor = cursor;
  if (reading.seen.has(data.mark)) reading.doubled++;
  else if (data.n < (reading.lastOf.get(record) ?? 0)) reading.disordered++;
  reading.seen.add(data.mark);
  reading.lastOf.set(record, data.n);
}

async function requireOk(response: Response): Promise<void> {
  if (response.ok) return;
  const text = `${response.status} ${await response.text()}`;
  throw response.status >= 500 || response.status === 429 ? new Error(text) : new Refused(text);
}

async function readPage({ url, key }: Endpoint, reading: Reading, signal: AbortSignal): Promise<void> {
  const limit = String(1 + Math.floor(Math.random() * 200));
  const query = new URLSearchParams({ since: reading.cursor, entities: 'entry', wait: '5', limit });
  const headers = { authorization: `Bearer ${key}` };
  const response = await fetch(`${url()}/api/changes?${query}`, { headers, signal });
  await requireOk(response);
  // biome-ignore lint/suspicious/noExplicitAny: the page as it comes
  const { data } = (await response.json()) as any;
  for (const item of data.items) {
    take(reading, { type: item.event, record: item.record_id, data: item.data }, item.cursor);
    // Sometimes a reader goes on from the middle of a page.
    if (Math.random() < 0.02) return;
  }
  reading.cursor = data.nextCursor;
}

async function readStream({ url, key, tenant }: Endpoint, reading: Reading, signal: AbortSignal): Promise<void> {
  const query = new URLSearchParams({ since: reading.cursor, entities: 'entry' });
  const headers = { authorization: `Bearer ${key}` };
  const response = await fetch(`${url()}/api/v1/tenants/${tenant}/events/stream?${query}`, { headers, signal });
  await requireOk(response);
  const decoder = new TextDecoder();
  let text = '';
  for await (const chunk of response.body ?? []) {
    const blocks = (text + decoder.decode(chunk as Uint8Array, { stream: true })).split('\n\n');
    text = blocks.pop() ?? '';
    for (const block of blocks) {
      const [, type = '', data] = /^event: (\w+\.\w+)\n[\s\S]*?data: (.*)$/.exec(block) ?? [];
      if (data === undefined) continue;
      const { record_id: record, data: of, cursor } = JSON.parse(data);
      take(reading, { type, record, data: of?.fields ?? {} }, cursor);
    }
  }
}

function readSocket({ url, key }: Endpoint, reading: Reading, signal: AbortSignal): Promise<void> {
  const socket = new WebSocket(`${url().replace('http', 'ws')}/ws`);
  const send = (message: object): void => socket.send(JSON.stringify(message));
  let isCut = false;
  socket.onopen = () => send({ type: 'auth', token: key });
  socket.onmessage = ({ data }) => {
    const message = JSON.parse(String(data));
    if (isCut) return;
    if (message.type === 'auth_ok') send({ type: 'subscribe', entity: 'entry', since: reading.cursor });
    else if (message.type === 'error') reading.unexpected.push(String(data));
    else if (message.cursor) {
      take(reading, { type: message.type, record: message.data.id, data: message.data }, message.cursor);
    }
  };
  return new Promise((resolve, reject) => {
    socket.onclose = () => (isCut ? resolve() : reject(new Error('closed')));
    const cut = (): void => {
      isCut = true;
      socket.close();
      resolve();
    };
    if (signal.aborted) cut();
    else signal.addEventListener('abort', cut, { once: true });
  });
}
