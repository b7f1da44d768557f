// Multiplexes many Postgres connections onto the single session of the embedded engine. A connection owns the
// engine from its first message until the engine is ready again outside a transaction; the others queue. When
// a connection ends, its transaction is rolled back and its prepared statements are closed. Listens on a free
// loopback port; a password excludes other users of the machine. It replaces the
// engine's own socket server because of https://github.com/electric-sql/pglite/issues/985 and /1046; remove it
// when both are fixed.
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';

import * as protocol from './protocol.ts';

/** A single session of Postgres that processes protocol messages. */
export interface Engine {
  serverVersion: string;
  run(messages: Uint8Array, onData: (bytes: Uint8Array) => void): Promise<void>;
  isInTransaction(): boolean;
}

type Phase = 'opening' | 'password' | 'open' | 'closed';

class ClientConnection {
  phase: Phase = 'opening';
  unread: Buffer = Buffer.alloc(0);
  pending: Buffer[] = [];
  /** Statements prepared for this connection. */
  readonly statements = new Set<string>();
  constructor(readonly socket: Socket) {}
}

export class Multiplexer {
  readonly #engine: Engine;
  readonly #password: string;
  readonly #server: Server;
  readonly #clients = new Set<ClientConnection>();
  /** Connections with complete messages, in order of arrival. */
  readonly #queue: ClientConnection[] = [];
  #owner: ClientConnection | undefined;
  #running = false;
  #onFailure: (error: unknown) => void;

  constructor(engine: Engine, password: string, onFailure: (error: unknown) => void) {
    this.#engine = engine;
    this.#password = password;
    this.#onFailure = onFailure;
    this.#server = createServer((socket) => this.#accept(socket));
  }

  /** Resolves to the port; 0 asks for a free one. */
  async listen(port: number): Promise<number> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(port, '127.0.0.1', resolve);
    });
    return (this.#server.address() as AddressInfo).port;
  }

  /** Ends every connection; resolves when the engine has finished its current work. */
  async close(): Promise<void> {
    this.#server.close();
    for (const client of this.#clients) client.socket.destroy();
    while (this.#running) await new Promise((resolve) => setTimeout(resolve, 5));
  }

  #accept(socket: Socket): void {
    const client = new ClientConnection(socket);
    this.#clients.add(client);
    socket.setNoDelay(true);
    socket.on('data', (bytes: Buffer) => this.#receive(client, bytes));
    // 'close' follows.
    socket.on('error', () => socket.destroy());
    socket.on('close', () => this.#onClose(client));
  }

  #receive(client: ClientConnection, bytes: Buffer): void {
    client.unread = client.unread.length === 0 ? bytes : Buffer.concat([client.unread, bytes]);
    if (client.phase === 'opening') this.#open(client);
    if (client.phase === 'opening') return;
    for (let message = protocol.firstMessage(client.unread); message; message = protocol.firstMessage(client.unread)) {
      client.unread = client.unread.subarray(message.length);
      if (client.phase === 'password') this.#authenticate(client, message);
      else if (client.phase === 'open') this.#receiveMessage(client, message);
    }
    this.#enqueue(client);
  }

  #open(client: ClientConnection): void {
    const opening = protocol.readOpening(client.unread);
    if (opening.kind === 'rejected') client.socket.destroy();
    if (!('length' in opening)) return;
    client.unread = client.unread.subarray(opening.length);
    if (opening.kind === 'encryption') {
      client.socket.write(protocol.NO_ENCRYPTION);
      this.#open(client);
      return;
    }
    client.socket.write(protocol.ASK_PASSWORD);
    client.phase = 'password';
  }

  #authenticate(client: ClientConnection, message: Buffer): void {
    if (!protocol.isPassword(message, this.#password)) {
      client.phase = 'closed';
      client.socket.end(protocol.fatal('28P01', 'password authentication failed'));
      return;
    }
    client.phase = 'open';
    client.socket.write(protocol.welcome(this.#engine.serverVersion));
  }

  #receiveMessage(client: ClientConnection, message: Buffer): void {
    const type = String.fromCharCode(message[0] ?? 0);
    if (type === 'X') {
      client.socket.end();
      return;
    }
    if (type === 'P') client.statements.add(protocol.preparedName(message));
    client.pending.push(message);
  }

  #onClose(client: ClientConnection): void {
    if (!this.#clients.delete(client)) return;
    client.phase = 'closed';
    const deallocations = [...client.statements].filter((name) => name !== '').map(protocol.closeStatement);
    const rollback = this.#owner === client ? [protocol.SYNC, protocol.query('rollback')] : [];
    client.pending = [...rollback, ...deallocations, protocol.SYNC];
    this.#enqueue(client);
  }

  #enqueue(client: ClientConnection): void {
    if (client.pending.length === 0) return;
    if (client !== this.#owner && !this.#queue.includes(client)) this.#queue.push(client);
    if (!this.#running) void this.#process();
  }

  async #process(): Promise<void> {
    this.#running = true;
    try {
      for (let client = this.#next(); client; client = this.#next()) {
        await this.#runUnit(client);
        // Lets the event loop send and receive before the engine blocks this thread again.
        await new Promise((resolve) => setImmediate(resolve));
      }
    } catch (error) {
      this.#onFailure(error);
    } finally {
      this.#running = false;
    }
  }

  #next(): ClientConnection | undefined {
    if (this.#owner) return this.#owner.pending.length > 0 ? this.#owner : undefined;
    return this.#queue.shift();
  }

  /** Runs a connection's messages up to the first that ends a unit of work. */
  async #runUnit(client: ClientConnection): Promise<void> {
    const isClosed = client.phase === 'closed';
    const end = client.pending.findIndex((message) => protocol.endsUnit(String.fromCharCode(message[0] ?? 0)));
    const unit = client.pending.splice(0, isClosed || end < 0 ? client.pending.length : end + 1);
    this.#owner = client;
    await this.#engine.run(Buffer.concat(unit), (bytes) => {
      if (client.phase === 'open') client.socket.write(bytes.slice());
    });
    const isFinished = isClosed || (end >= 0 && !this.#engine.isInTransaction());
    if (!isFinished) return;
    this.#owner = undefined;
    if (client.pending.length > 0) this.#queue.push(client);
  }
}
