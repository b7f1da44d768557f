// Messages between the supervisor and the worker processes of one port: marked lines on standard input and output, so
// they need neither an address nor a broker. A worker asks the supervisor, which asks every listening worker and returns their
// replies. The supervisor asks each worker whether it still runs. Times are milliseconds.
// Failures: a worker that does not reply in time is left out; 503 when the supervisor does not reply.
// Contract: decisions#configuration, decisions#metrics.
import process from 'node:process';
import { createInterface } from 'node:readline';
import { unavailable } from '../errors.ts';

/** The first character of a message; no console line starts with it. */
const MARK = '\u001e';
const REPLY_TIMEOUT_MS = 1_000;
const QUERY_TIMEOUT_MS = 2 * REPLY_TIMEOUT_MS;

/** Workers send `ask` and `answer`; the supervisor sends `question` and `answers`; a `heartbeat` is sent back at once. */
type Message =
  | { kind: 'heartbeat' }
  | { kind: 'ask' | 'question'; id: string }
  | { kind: 'answer'; id: string; text: string }
  | { kind: 'answers'; id: string; texts: Record<string, string> };

export const HEARTBEAT = lineOf({ kind: 'heartbeat' });

export function isHeartbeat(line: string): boolean {
  return line === HEARTBEAT.trimEnd();
}

/** In a worker: sends the supervisor's heartbeats back. */
export function answerHeartbeats(): void {
  createInterface({ input: process.stdin }).on('line', (line) => {
    if (isHeartbeat(line)) process.stdout.write(HEARTBEAT);
  });
}

/** In a worker: replies to questions with `reply()`. Returns a function that asks all workers, itself included. */
export function connectWorker(reply: () => Promise<string>): () => Promise<ReadonlyMap<string, string>> {
  const asked = new Map<string, (texts: ReadonlyMap<string, string>) => void>();
  let last = 0;
  const send = (message: Message): void => void process.stdout.write(lineOf(message));
  createInterface({ input: process.stdin }).on('line', (line) => {
    const message = messageOf(line);
    if (message?.kind === 'question') void reply().then((text) => send({ kind: 'answer', id: message.id, text }));
    if (message?.kind === 'answers') asked.get(message.id)?.(new Map(Object.entries(message.texts)));
  });
  return async () => {
    const id = String(++last);
    const { promise, resolve, reject } = Promise.withResolvers<ReadonlyMap<string, string>>();
    const timer = setTimeout(() => reject(unavailable('the other processes do not reply')), QUERY_TIMEOUT_MS);
    asked.set(id, resolve);
    send({ kind: 'ask', id });
    return promise.finally(() => {
      clearTimeout(timer);
      asked.delete(id);
    });
  };
}

/** A question in flight: the workers that have not replied, and the replies so far. */
interface Round {
  waiting: Set<number>;
  texts: Record<string, string>;
  finish(): void;
}

/** In the supervisor: the listening workers, and the questions in flight. */
export class MessageRouter {
  readonly #members = new Map<number, (line: string) => void>();
  readonly #rounds = new Map<string, Round>();

  /** Adds a listening worker; `write` sends it a line. */
  add(number: number, write: (line: string) => void): void {
    this.#members.set(number, write);
  }

  remove(number: number): void {
    this.#members.delete(number);
    for (const id of [...this.#rounds.keys()]) this.#recordReply(id, number);
  }

  /** Handles a line that a worker printed; false when it is not a message. */
  receive(number: number, line: string): boolean {
    const message = messageOf(line);
    if (message?.kind === 'ask') this.#startRound(number, message.id);
    if (message?.kind === 'answer') this.#recordReply(message.id, number, message.text);
    return message !== undefined;
  }

  #startRound(asker: number, asked: string): void {
    const id = `${asker}.${asked}`;
    const texts: Record<string, string> = {};
    const finish = (): void => {
      clearTimeout(timer);
      this.#rounds.delete(id);
      this.#members.get(asker)?.(lineOf({ kind: 'answers', id: asked, texts }));
    };
    const timer = setTimeout(finish, REPLY_TIMEOUT_MS);
    this.#rounds.set(id, { waiting: new Set(this.#members.keys()), texts, finish });
    for (const write of this.#members.values()) write(lineOf({ kind: 'question', id }));
  }

  #recordReply(id: string, number: number, text?: string): void {
    const round = this.#rounds.get(id);
    if (round === undefined || !round.waiting.delete(number)) return;
    if (text !== undefined) round.texts[number] = text;
    if (round.waiting.size === 0) round.finish();
  }
}

function lineOf(message: Message): string {
  return `${MARK}${JSON.stringify(message)}\n`;
}

function messageOf(line: string): Message | undefined {
  return line.startsWith(MARK) ? (JSON.parse(line.slice(MARK.length)) as Message) : undefined;
}
