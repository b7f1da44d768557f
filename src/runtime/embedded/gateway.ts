// Many Postgres connections on one embedded engine, which knows only one session. A connection has the engine to
// itself from its first message until the engine is ready again outside of a transaction; the others wait in turn.
// (The engine's own socket server hands it single messages of several connections in turn, so that one client
// reads another's results.) A connection that ends is rolled back and its prepared statements are closed.
// Listens on a free loopback port; a password keeps other users of the machine out.
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';

import * as wire from './wire.ts';

/** One session of Postgres that takes protocol messages. */
export interface Engine {
  serverVersion: string;
  run(messages: Uint8Array, onData: (bytes: Uint8Array) => void): Promise<void>;
  isInTransaction(): boolean;
}

type Phase = 'opening' | 'password' | 'open' | 'closed';

class Session {
  phase: Phase = 'opening';
  unread: Buffer = Buffer.alloc(0);
  inbox: Buffer[] = [];
  /** Statements prepared for this connection. */
  readonly statements = new Set<string>();
  constructor(readonly socket: Socket) {}
}

export class Gateway {
  readonly #engine: Engine;
  readonly #password: string;
  readonly #server: Server;
  readonly #sessions = new Set<Session>();
  /** Sessions with complete messages, in order of arrival. */
  readonly #turn: Session[] = [];
  #owner: Session | undefined;
  #running = false;
  #onBroken: (error: unknown) => void;

  constructor(engine: Engine, password: string, onBroken: (error: unknown) => void) {
    this.#engine = engine;
    this.#password = password;
    this.#onBroken = onBroken;
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

  /** Ends every connection; what the engine runs at the moment is finished first. */
  async close(): Promise<void> {
    this.#server.close();
    for (const session of this.#sessions) session.socket.destroy();
    while (this.#running) await new Promise((resolve) => setTimeout(resolve, 5));
  }

  #accept(socket: Socket): void {
    const session = new Session(socket);
    this.#sessions.add(session);
    socket.setNoDelay(true);
    socket.on('data', (bytes: Buffer) => this.#receive(session, bytes));
    // A reset connection is an ended one: 'close' follows.
    socket.on('error', () => socket.destroy());
    socket.on('close', () => this.#leave(session));
  }

  #receive(session: Session, bytes: Buffer): void {
    session.unread = session.unread.length === 0 ? bytes : Buffer.concat([session.unread, bytes]);
    if (session.phase === 'opening') this.#open(session);
    if (session.phase === 'opening') return;
    for (let length = wire.messageLength(session.unread); length > 0; length = wire.messageLength(session.unread)) {
      const message = session.unread.subarray(0, length);
      session.unread = session.unread.subarray(length);
      if (session.phase === 'password') this.#admit(session, message);
      else if (session.phase === 'open') this.#take(session, message);
    }
    this.#arrange(session);
  }

  #open(session: Session): void {
    const opening = wire.readOpening(session.unread);
    if (opening.kind === 'refused') session.socket.destroy();
    if (!('length' in opening)) return;
    session.unread = session.unread.subarray(opening.length);
    if (opening.kind === 'encryption') {
      session.socket.write(wire.NO_ENCRYPTION);
      this.#open(session);
      return;
    }
    session.socket.write(wire.ASK_PASSWORD);
    session.phase = 'password';
  }

  #admit(session: Session, message: Buffer): void {
    if (!wire.isPassword(message, this.#password)) {
      session.phase = 'closed';
      session.socket.end(wire.fatal('28P01', 'password authentication failed'));
      return;
    }
    session.phase = 'open';
    session.socket.write(wire.welcome(this.#engine.serverVersion));
  }

  #take(session: Session, message: Buffer): void {
    const type = String.fromCharCode(message[0] ?? 0);
    if (type === 'X') {
      session.socket.end();
      return;
    }
    if (type === 'P') session.statements.add(wire.preparedName(message));
    session.inbox.push(message);
  }

  #leave(session: Session): void {
    if (!this.#sessions.delete(session)) return;
    session.phase = 'closed';
    const left = [...session.statements].filter((name) => name !== '').map(wire.closeStatement);
    const undo = this.#owner === session ? [wire.SYNC, wire.query('rollback')] : [];
    session.inbox = [...undo, ...left, wire.SYNC];
    this.#arrange(session);
  }

  #arrange(session: Session): void {
    if (session.inbox.length === 0) return;
    if (session !== this.#owner && !this.#turn.includes(session)) this.#turn.push(session);
    if (!this.#running) void this.#work();
  }

  async #work(): Promise<void> {
    this.#running = true;
    try {
      for (let session = this.#next(); session; session = this.#next()) {
        await this.#runUnit(session);
        // Lets answers out and questions in before the engine blocks this thread again.
        await new Promise((resolve) => setImmediate(resolve));
      }
    } catch (error) {
      this.#onBroken(error);
    } finally {
      this.#running = false;
    }
  }

  #next(): Session | undefined {
    if (this.#owner) return this.#owner.inbox.length > 0 ? this.#owner : undefined;
    return this.#turn.shift();
  }

  /** Runs one session's messages up to the first that ends a unit of work. */
  async #runUnit(session: Session): Promise<void> {
    const leaving = session.phase === 'closed';
    const end = session.inbox.findIndex((message) => wire.endsUnit(String.fromCharCode(message[0] ?? 0)));
    const unit = session.inbox.splice(0, leaving || end < 0 ? session.inbox.length : end + 1);
    this.#owner = session;
    await this.#engine.run(Buffer.concat(unit), (bytes) => {
      if (session.phase === 'open') session.socket.write(bytes.slice());
    });
    const isOver = leaving || (end >= 0 && !this.#engine.isInTransaction());
    if (!isOver) return;
    this.#owner = undefined;
    if (session.inbox.length > 0) this.#turn.push(session);
  }
}
