// A connection to a checked address of a receiver, for one request at a time. It replaces `node:http`, which costs more: on Bun a
// signed POST takes 215 us of CPU with `node:http` and 74 here, on Deno 214 and 138. `undici` costs as much as `node:http`, and Bun
// replaces it with a module that ignores the pinned address. Durations are ms.
// The responses to many attempts of a tenant may arrive in one turn of the event loop, so they are read in turns of the tenant's share.
// Failures of a receiver are short labels, never exceptions. Contract: decisions#webhook-requests, neighbours#fair-shares.
import type { Buffer } from 'node:buffer';
import { isIP, connect as openTcp, type Socket } from 'node:net';
import { connect as openTls } from 'node:tls';
import { inTurn } from '../../runtime/event-loop.ts';
import { CONNECTION_BROKEN, errorLabel } from './error-labels.ts';
import type { Receiver } from './receiver.ts';
import { ResponseReader } from './response-reader.ts';

/** The outcome of a request; `error` is null when the response was read. */
export interface Exchange {
  status: number | null;
  error: string | null;
  /** Whether any byte of a response has arrived. */
  isAnswered: boolean;
  isReusable: boolean;
  responseText: string | null;
}

/** How long to wait for one address of a receiver while another address can be tried. */
const ADDRESS_MS = 2_000;

export class Connection {
  #reader: ResponseReader | null = null;
  #settle: ((exchange: Exchange) => void) | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isAnswered = false;
  #isSent = false;
  /** What has arrived and waits for a turn. */
  #unread: Buffer | null = null;
  /** Whether an exchange may follow. */
  isOpen = true;
  /** Called once, when the connection is closed. */
  onClosed: (() => void) | null = null;

  private constructor(
    private readonly socket: Socket,
    private readonly share: string,
  ) {
    socket.on('data', (bytes: Buffer) => this.#receive(bytes));
    socket.on('end', () => this.#break(this.#reader?.end() === true ? null : CONNECTION_BROKEN));
    socket.on('error', (error) => this.#break(errorLabel(error)));
    socket.on('close', () => this.#break(CONNECTION_BROKEN));
  }

  /** Connects to the first address that accepts it, for work of the share. Rejects with the error of the last. */
  static async open(receiver: Receiver, share: string, timeoutMs: number): Promise<Connection> {
    const deadline = performance.now() + timeoutMs;
    const { url, addresses } = receiver;
    for (const [i, { address }] of addresses.entries()) {
      const left = Math.max(1, deadline - performance.now());
      const isLast = i === addresses.length - 1 || left <= 1;
      try {
        return new Connection(await connectTo(url, address, isLast ? left : Math.min(left, ADDRESS_MS)), share);
      } catch (error) {
        if (isLast) throw error;
      }
    }
    throw new Error('a receiver without addresses');
  }

  /** Sends a request and reads its response. Always resolves; a failed connection is closed. */
  exchange(request: string, timeoutMs: number): Promise<Exchange> {
    return new Promise((settle) => {
      this.#settle = settle;
      this.#reader = new ResponseReader();
      this.#isAnswered = false;
      this.#isSent = false;
      this.#timer = setTimeout(() => this.#break('timeout'), timeoutMs);
      this.socket.write(request, 'utf8', () => {
        this.#isSent = true;
      });
    });
  }

  close(): void {
    this.#end(CONNECTION_BROKEN);
  }

  #receive(bytes: Buffer): void {
    // No request is in flight, or its response is complete.
    if (this.#reader === null) {
      this.#end(null);
      return;
    }
    this.#isAnswered = true;
    this.#unread = bytes;
    inTurn(this.share, () => this.#readUnread());
    // A paused socket emits no further bytes.
    if (this.#unread !== null) this.socket.pause();
  }

  #readUnread(): void {
    const [bytes, reader] = [this.#unread, this.#reader];
    if (bytes === null || reader === null) return;
    this.#unread = null;
    if (this.socket.isPaused()) this.socket.resume();
    try {
      if (!reader.read(bytes)) return;
      if (this.#isSent && reader.isReusable) this.#settled(null, true);
      else this.#end(null);
    } catch (error) {
      this.#end(errorLabel(error));
    }
  }

  /** Ends the connection from outside; the response may be complete in what has arrived. */
  #break(error: string | null): void {
    this.#readUnread();
    this.#end(error);
  }

  /** Ends the exchange, if there is one, and the connection. */
  #end(error: string | null): void {
    if (!this.isOpen) return;
    this.isOpen = false;
    this.socket.destroy();
    this.#settled(error, false);
    this.onClosed?.();
  }

  #settled(error: string | null, isReusable: boolean): void {
    const [settle, reader] = [this.#settle, this.#reader];
    this.#settle = null;
    this.#reader = null;
    clearTimeout(this.#timer);
    if (settle === null || reader === null) return;
    const { status, said } = reader;
    settle({ status, error, isAnswered: this.#isAnswered, isReusable, responseText: said.text() });
  }
}

function connectTo(url: URL, address: string, timeoutMs: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const isSecure = url.protocol === 'https:';
    const port = url.port === '' ? (isSecure ? 443 : 80) : Number(url.port);
    const socket = isSecure ? openTls({ host: address, port, ...identityOf(url) }) : openTcp({ host: address, port });
    const timer = setTimeout(() => fail(Object.assign(new Error('no connection'), { code: 'ETIMEDOUT' })), timeoutMs);
    const fail = (error: Error): void => {
      clearTimeout(timer);
      // A socket that is being destroyed may report another error.
      socket.on('error', () => undefined);
      socket.destroy();
      reject(error);
    };
    const closed = (): void => fail(Object.assign(new Error('closed'), { code: 'ECONNRESET' }));
    socket.once('error', fail);
    socket.once('close', closed);
    socket.once(isSecure ? 'secureConnect' : 'connect', () => {
      clearTimeout(timer);
      socket.off('error', fail);
      socket.off('close', closed);
      socket.setNoDelay(true);
      resolve(socket);
    });
  });
}

/** The server name that the certificate must match. An IP address is not a server name; TLS compares it with the certificate itself. */
function identityOf({ hostname }: URL): { servername?: string; rejectUnauthorized: true; ALPNProtocols: string[] } {
  const name = hostname.replace(/^\[|\]$/g, '');
  return { ...(isIP(name) > 0 ? {} : { servername: name }), rejectUnauthorized: true, ALPNProtocols: ['http/1.1'] };
}
