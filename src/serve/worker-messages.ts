// How processes that share a port hear of each other's figures: one asks the process that started them,
// which asks all that listen and hands their answers back. Messages are marked lines on the pipes that
// are there anyway, so they need no address and no broker. Times are milliseconds.
// Failures: one that does not answer in time is left out; 503 when nobody answers.
// Contract: decisions#configuration, decisions#metrics.
import process from 'node:process';
import { createInterface } from 'node:readline';
import { unavailable } from '../errors.ts';

/** The first character of a message: no line for the console begins with it. */
const MARK = '\u001e';
const REPLY_TIMEOUT_MS = 1_000;
const QUERY_TIMEOUT_MS = 2 * REPLY_TIMEOUT_MS;

/** `ask` and `answer` go to the first process, `question` and `answers` come from it. */
type Message =
  | { kind: 'ask' | 'question'; id: string }
  | { kind: 'answer'; id: string; text: string }
  | { kind: 'answers'; id: string; texts: Record<string, string> };

/** In a process that serves: answers the others with `tell()`. Returns how to ask all of them, itself included. */
export function connectWorker(tell: () => Promise<string>): () => Promise<ReadonlyMap<string, string>> {
  const asked = new Map<string, (texts: ReadonlyMap<string, string>) => void>();
  let last = 0;
  const say = (message: Message): void => void process.stdout.write(lineOf(message));
  createInterface({ input: process.stdin }).on('line', (line) => {
    const message = messageOf(line);
    if (message?.kind === 'question') void tell().then((text) => say({ kind: 'answer', id: message.id, text }));
    if (message?.kind === 'answers') asked.get(message.id)?.(new Map(Object.entries(message.texts)));
  });
  return async () => {
    const id = String(++last);
    const { promise, resolve, reject } = Promise.withResolvers<ReadonlyMap<string, string>>();
    const timer = setTimeout(() => reject(unavailable('the other processes do not answer')), QUERY_TIMEOUT_MS);
    asked.set(id, resolve);
    say({ kind: 'ask', id });
    return promise.finally(() => {
      clearTimeout(timer);
      asked.delete(id);
    });
  };
}

/** One question on its way: who still has to answer, and what came. */
interface Round {
  waiting: Set<number>;
  texts: Record<string, string>;
  finish(): void;
}

/** In the first process: who listens, and the questions on their way. */
export class MessageRouter {
  readonly #members = new Map<number, (line: string) => void>();
  readonly #rounds = new Map<string, Round>();

  /** A process listens; `write` takes lines to it. */
  add(number: number, write: (line: string) => void): void {
    this.#members.set(number, write);
  }

  remove(number: number): void {
    this.#members.delete(number);
    for (const id of [...this.#rounds.keys()]) this.#recordReply(id, number);
  }

  /** Takes a line that a process printed; false when it is none of these messages. */
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
