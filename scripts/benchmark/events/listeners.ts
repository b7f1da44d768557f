// Clients of event streams, in the process of the bench: Server-Sent Events over raw TCP, because reading must cost
// almost nothing, and WebSockets. They count what they receive; the first one also waits for a text, to measure latency.
// Times are milliseconds.

/** Where listeners connect. */
export interface Address {
  port: number;
  streamPath: string;
  /** Events that every stream starts with. */
  firstEvents: number;
  key?: string;
  /** WebSockets take platform keys. */
  socketKey?: string;
  entity?: string;
}

/** Connections of one kind to one server, all of them open and confirmed. */
export interface Listeners {
  /** Events that every connection has received. */
  received(): number;
  /** Resolves when the first connection receives a text with `marker`. Call it before creating the event. */
  waitFor(marker: string): Promise<void>;
  close(): Promise<void>;
}

export type Open = (address: Address, count: number) => Promise<Listeners>;

const OPEN_AT_ONCE = 50;
const OPEN_MS = 30_000;
const NUMBER = '\nid: ';
/** Bytes kept from the previous chunk, in case it cut a number in two. */
const CARRY = 64;

/** Resolves when `holds` is true, checked every `everyMs`; throws after `ms`. */
export async function until(
  what: string,
  holds: () => boolean | Promise<boolean>,
  ms = OPEN_MS,
  everyMs = 2,
): Promise<void> {
  const deadline = performance.now() + ms;
  while (!(await holds())) {
    if (performance.now() > deadline) throw new Error(`${what}: not within ${ms} ms`);
    await Bun.sleep(everyMs);
  }
}

/** Waits for one text at a time. */
class TextWatch {
  #marker: string | undefined;
  #seen = () => {};
  #text = '';

  wait(marker: string): Promise<void> {
    this.#marker = marker;
    this.#text = '';
    return new Promise((resolve) => {
      this.#seen = resolve;
    });
  }

  read(data: { toString(): string }): void {
    if (this.#marker === undefined) return;
    this.#text += data.toString();
    if (!this.#text.includes(this.#marker)) return;
    this.#marker = undefined;
    this.#seen();
  }
}

/** The last `id:` in a stream of chunks: both servers number the events of a connection from 1. */
class LastNumber {
  value = 0;
  #carry = '';

  push(data: Buffer): void {
    const at = data.lastIndexOf(NUMBER);
    if (at >= 0) this.#take(data.toString('latin1', at, at + CARRY));
    else this.#take(this.#carry + data.toString('latin1', 0, CARRY));
    this.#carry = data.toString('latin1', Math.max(0, data.length - CARRY));
  }

  #take(text: string): void {
    const found = /\nid: (\d+)\n/.exec(text)?.[1];
    if (found !== undefined) this.value = Math.max(this.value, Number(found));
  }
}

/** Opens `count` event streams. */
export const openStreams: Open = async ({ port, streamPath, key, firstEvents }, count) => {
  const watch = new TextWatch();
  const numbers: LastNumber[] = [];
  let ended = 0;
  const head = `GET ${streamPath} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n${key ? `Authorization: Bearer ${key}\r\n` : ''}\r\n`;
  const connect = () => {
    const number = new LastNumber();
    const isFirst = numbers.push(number) === 1;
    return Bun.connect({
      hostname: '127.0.0.1',
      port,
      socket: {
        open: (socket) => void socket.write(head),
        data: (_, data) => {
          number.push(data);
          if (isFirst) watch.read(data);
        },
        close: () => void ended++,
        error: (_, error) => console.error(error.message),
      },
    });
  };
  const sockets = await inBatches(count, connect);
  const received = () => {
    if (ended > 0) throw new Error(`${ended} of ${count} streams were ended`);
    return Math.min(...numbers.map(({ value }) => value)) - firstEvents;
  };
  await until(`${count} streams`, () => received() >= 0);
  return {
    received,
    waitFor: (marker) => watch.wait(marker),
    close: async () => {
      for (const socket of sockets) socket.end();
      await Bun.sleep(100);
    },
  };
};

/** Opens `count` WebSockets, each authenticated and subscribed to the entity if the server requires it. */
export const openSockets: Open = async ({ port, socketKey, entity }, count) => {
  const watch = new TextWatch();
  const counts: number[] = [];
  const connect = () => {
    const at = counts.push(0) - 1;
    const socket = new WebSocket(`ws://127.0.0.1:${port}/ws`);
    const opened = Promise.withResolvers<WebSocket>();
    socket.onerror = () => opened.reject(new Error('a WebSocket could not be opened'));
    socket.onopen = () => {
      if (socketKey) socket.send(JSON.stringify({ type: 'auth', token: socketKey }));
      else opened.resolve(socket);
    };
    socket.onmessage = ({ data }) => {
      const text = data as string;
      if (text.startsWith('{"type":"auth_ok"')) socket.send(JSON.stringify({ type: 'subscribe', entity }));
      else if (text.startsWith('{"type":"subscribed"')) opened.resolve(socket);
      else if (text.startsWith('{"type":"record.')) {
        counts[at] = (counts[at] as number) + 1;
        if (at === 0) watch.read(text);
      } else opened.reject(new Error(`unexpected WebSocket message: ${text}`));
    };
    return opened.promise;
  };
  const sockets = await inBatches(count, connect);
  return {
    received: () => Math.min(...counts),
    waitFor: (marker) => watch.wait(marker),
    close: async () => {
      for (const socket of sockets) socket.close();
      await Bun.sleep(100);
    },
  };
};

async function inBatches<T>(count: number, connect: () => Promise<T>): Promise<T[]> {
  const all: T[] = [];
  while (all.length < count) {
    const some = Math.min(OPEN_AT_ONCE, count - all.length);
    all.push(...(await Promise.all(Array.from({ length: some }, connect))));
  }
  return all;
}
