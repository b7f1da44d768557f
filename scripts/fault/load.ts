// What goes on while things break: writers that never stop, and an event stream and a WebSocket that are opened
// anew whenever they end. Each is told to stop by its signal. A write that fails is one whose outcome nobody was
// told. Times are milliseconds. Contract: decisions#events.
import { setTimeout as delay } from 'node:timers/promises';
import type { Ledger, Visit } from './ledger.ts';

/** Where the service is, and how one gets in. */
export interface Door {
  /** The address of a process that should be up. */
  url(): string;
  /** A platform key, for everything. */
  key: string;
  tenant: string;
}

const RECORDS = '/api/entities/entry/records';
const PAUSE_MS = 25;
const RECONNECT_MS = 100;
const REQUEST_MS = 8_000;
/** How often each record is changed after it was made. */
const PATCHES = 2;
/** Nothing for so long, heartbeats of a second included: the connection is dead. */
const SILENCE_MS = 5_000;

/** Makes records and changes them, one after the other, each with a mark of its own. */
export async function write(door: Door, ledger: Ledger, name: string, signal: AbortSignal): Promise<void> {
  for (let count = 0; !signal.aborted; ) {
    let path = RECORDS;
    for (let n = 0; n <= PATCHES && !signal.aborted; n++) {
      const mark = `${name}-${count++}`;
      ledger.begin(mark);
      const id = await send(door, n === 0 ? 'POST' : 'PATCH', path, { mark, n });
      await delay(PAUSE_MS);
      if (id === null) break;
      ledger.acknowledge(mark);
      path = `${RECORDS}/${id}`;
    }
  }
}

/** The record's id, or null where success was not heard of. */
async function send(door: Door, method: string, path: string, body: unknown): Promise<string | null> {
  try {
    const response = await fetch(door.url() + path, {
      method,
      headers: { 'content-type': 'application/json', authorization: `Bearer ${door.key}` },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(REQUEST_MS),
    });
    const answer = (await response.json()) as { data?: { id: string } };
    return response.ok ? (answer.data?.id ?? null) : null;
  } catch {
    // Killed, cut off or too late: the outcome is unknown, and the ledger has it as not acknowledged.
    return null;
  }
}

/** Reads the event stream for as long as it lasts, again and again. */
export async function listen(door: Door, ledger: Ledger, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const silence = new AbortController();
    let timer = setTimeout(() => silence.abort(), SILENCE_MS);
    try {
      const response = await fetch(`${door.url()}/api/v1/tenants/${door.tenant}/events/stream`, {
        headers: { authorization: `Bearer ${door.key}` },
        signal: AbortSignal.any([signal, silence.signal]),
      });
      let text = '';
      let visit: Visit | undefined;
      const decoder = new TextDecoder();
      for await (const chunk of response.ok ? (response.body ?? []) : []) {
        clearTimeout(timer);
        timer = setTimeout(() => silence.abort(), SILENCE_MS);
        const blocks = (text + decoder.decode(chunk as Uint8Array, { stream: true })).split('\n\n');
        text = blocks.pop() ?? '';
        for (const block of blocks) {
          if (block.startsWith('event: connected')) visit = ledger.visit('sse');
          const [, data] = /^event: record\.[\s\S]*\ndata: (.*)$/.exec(block) ?? [];
          if (data !== undefined && visit) ledger.show('sse', visit, JSON.parse(data).data.fields.mark);
        }
      }
    } catch (cause) {
      if (!isBreak(cause)) throw cause;
    } finally {
      clearTimeout(timer);
    }
    await delay(RECONNECT_MS);
  }
}

/** The same on a WebSocket. */
export async function subscribe(door: Door, ledger: Ledger, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const socket = new WebSocket(`${door.url().replace('http', 'ws')}/ws`);
    let visit: Visit | undefined;
    const say = (message: object): void => socket.send(JSON.stringify(message));
    socket.onopen = () => say({ type: 'auth', token: door.key });
    socket.onmessage = ({ data }) => {
      const message = JSON.parse(String(data));
      if (message.type === 'auth_ok') say({ type: 'subscribe', entity: 'entry' });
      else if (message.type === 'subscribed') visit = ledger.visit('ws');
      else if (visit && message.entity === 'entry') ledger.show('ws', visit, message.data.mark);
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

function isBreak(cause: unknown): boolean {
  const { name, code } = (cause ?? {}) as { name?: string; code?: string };
  return name === 'AbortError' || name === 'TypeError' || typeof code === 'string';
}
