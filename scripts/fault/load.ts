// The load during the faults: writers, an event stream and a WebSocket, which reconnect when their connection ends.
// Each runs until its signal aborts. A failed write has an unknown outcome. Times are milliseconds.
// Contract: decisions#events.
import { setTimeout as delay } from 'node:timers/promises';
import type { Connection, Ledger } from './ledger.ts';

/** How to reach the service. */
export interface Endpoint {
  /** The address of a process that should be running. */
  url(): string;
  /** A platform key that may read and write the entity. */
  key: string;
  tenant: string;
}

const RECORDS = '/api/entities/entry/records';
const PAUSE_MS = 25;
const RECONNECT_MS = 100;
const REQUEST_MS = 8_000;
/** Updates of each record. */
const PATCHES = 2;
/** Without an event for this long (heartbeats come every second) the connection is dead. */
const SILENCE_MS = 5_000;

/** Creates records and updates them, one after the other; each write stores a unique value, its mark. */
export async function write(endpoint: Endpoint, ledger: Ledger, name: string, signal: AbortSignal): Promise<void> {
  for (let count = 0; !signal.aborted; ) {
    let path = RECORDS;
    for (let n = 0; n <= PATCHES && !signal.aborted; n++) {
      const mark = `${name}-${count++}`;
      ledger.attempted(mark);
      const id = await send(endpoint, n === 0 ? 'POST' : 'PATCH', path, { mark, n });
      await delay(PAUSE_MS);
      if (id === null) break;
      ledger.acknowledged(mark);
      path = `${RECORDS}/${id}`;
    }
  }
}

/** The record's id; null when the write was not acknowledged. */
async function send(endpoint: Endpoint, method: string, path: string, body: unknown): Promise<string | null> {
  try {
    const response = await fetch(endpoint.url() + path, {
      method,
      headers: { 'content-type': 'application/json', authorization: `Bearer ${endpoint.key}` },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(REQUEST_MS),
    });
    const answer = (await response.json()) as { data?: { id: string } };
    return response.ok ? (answer.data?.id ?? null) : null;
  } catch {
    // Killed, cut off or too late: the outcome is unknown, so the change is not acknowledged.
    return null;
  }
}

/** Reads the event stream, and reconnects when it ends. */
export async function followStream(endpoint: Endpoint, ledger: Ledger, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const silence = new AbortController();
    let timer = setTimeout(() => silence.abort(), SILENCE_MS);
    try {
      const response = await fetch(`${endpoint.url()}/api/v1/tenants/${endpoint.tenant}/events/stream`, {
        headers: { authorization: `Bearer ${endpoint.key}` },
        signal: AbortSignal.any([signal, silence.signal]),
      });
      let text = '';
      let connection: Connection | undefined;
      const decoder = new TextDecoder();
      for await (const chunk of response.ok ? (response.body ?? []) : []) {
        clearTimeout(timer);
        timer = setTimeout(() => silence.abort(), SILENCE_MS);
        const blocks = (text + decoder.decode(chunk as Uint8Array, { stream: true })).split('\n\n');
        text = blocks.pop() ?? '';
        for (const block of blocks) {
          if (block.startsWith('event: connected')) connection = ledger.connected('sse');
          const [, data] = /^event: record\.[\s\S]*\ndata: (.*)$/.exec(block) ?? [];
          if (data !== undefined && connection) ledger.received('sse', connection, JSON.parse(data).data.fields.mark);
        }
      }
    } catch (cause) {
      if (!isConnectionError(cause)) throw cause;
    } finally {
      clearTimeout(timer);
    }
    await delay(RECONNECT_MS);
  }
}

/** The same on a WebSocket. */
export async function followSocket(endpoint: Endpoint, ledger: Ledger, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const socket = new WebSocket(`${endpoint.url().replace('http', 'ws')}/ws`);
    let connection: Connection | undefined;
    const send = (message: object): void => socket.send(JSON.stringify(message));
    socket.onopen = () => send({ type: 'auth', token: endpoint.key });
    socket.onmessage = ({ data }) => {
      const message = JSON.parse(String(data));
      if (message.type === 'auth_ok') send({ type: 'subscribe', entity: 'entry' });
      else if (message.type === 'subscribed') connection = ledger.connected('ws');
      else if (connection && message.entity === 'entry') ledger.received('ws', connection, message.data.mark);
    };
    const stop = (): void => socket.close();
    signal.addEventListener('abort', stop, { once: true });
    await new Promise((resolve) => {
      socket.onclose = resolve;
    });
    signal.removeEventListener('abort', stop);
    await delay(RECONNECT_MS);
  }
}

function isConnectionError(cause: unknown): boolean {
  const { name, code } = (cause ?? {}) as { name?: string; code?: string };
  return name === 'AbortError' || name === 'TypeError' || typeof code === 'string';
}
