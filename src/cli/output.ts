// What a command prints: tables and sentences for people, JSON for programs (`--json`; one object per line for streams). Results
// go to standard output, messages to standard error. A terminal would obey control characters, so text from the service is shown
// without them: notes, tones and cells accept any text, but a line must consist of `printable` results. JSON contains them as
// escapes. If a reader such as `head` goes away, the program ends without a message.
import { once } from 'node:events';
import process from 'node:process';

export type Row = Record<string, unknown>;
type Tone = 'bold' | 'dim' | 'red' | 'green' | 'yellow';

const TONES: Record<Tone, string> = { bold: '1', dim: '2', red: '31', green: '32', yellow: '33' };
/** Maximum characters of a cell in a terminal. */
const CELL_MAX = 48;
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** Text from the service in a form that is safe for a terminal. */
export function printable(text: string): string {
  return text.replace(CONTROL, (one) => (one === '\n' || one === '\t' ? ' ' : escaped(one)));
}

/** The same value as JSON.stringify writes, with control characters escaped for terminals. */
export function jsonText(value: unknown): string {
  return JSON.stringify(value).replace(CONTROL, escaped);
}

function escaped(one: string): string {
  return `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

export class Output {
  constructor(readonly isJson: boolean) {}

  get isTerminal(): boolean {
    return process.stdout.isTTY === true;
  }

  /** Whether a person sees the messages, so that progress is worth showing. */
  get isWatched(): boolean {
    return process.stderr.isTTY === true && !this.isJson;
  }

  /** Prints an answer: the object itself for programs, the output of `show` for people. */
  async answer(value: unknown, show: () => Promise<void> | void): Promise<void> {
    if (this.isJson) await this.write(`${jsonText(value)}\n`);
    else await show();
  }

  /** Prints one object of a stream. */
  async item(value: unknown, text: string): Promise<void> {
    await this.write(`${this.isJson ? jsonText(value) : text}\n`);
  }

  /** Prints rows under the names of their columns. `columns` are keys, or `title=key`. */
  async table(rows: readonly Row[], columns: readonly string[]): Promise<void> {
    if (rows.length === 0) return this.note('nothing to show');
    const { default: Table } = await import('cli-table3');
    const named = columns.map((column) => column.split('=') as [string, string?]);
    const table = new Table({
      head: named.map(([title]) => this.tone('bold', title)),
      chars: BORDERLESS,
      style: { head: [], border: [], 'padding-left': 0, 'padding-right': 2 },
    });
    for (const row of rows) table.push(named.map(([title, key = title]) => this.#cell(row[key])));
    await this.line(table.toString().replace(/ +$/gm, ''));
  }

  /** Prints the members of an object, one per line. */
  async members(value: Row): Promise<void> {
    const keys = Object.keys(value);
    const width = Math.max(...keys.map((key) => key.length));
    for (const key of keys) await this.line(`${this.tone('dim', key.padEnd(width))}  ${shown(value[key])}`);
  }

  async line(text: string): Promise<void> {
    await this.write(`${text}\n`);
  }

  /** Waits for a reader that is slower than this program. */
  async write(text: string | Uint8Array): Promise<void> {
    if (!process.stdout.write(text)) await once(process.stdout, 'drain');
  }

  /** Copies a file to standard output: byte for byte into a pipe, in a safe form to a terminal. */
  async copy(bytes: AsyncIterable<Uint8Array>): Promise<void> {
    const decoder = new TextDecoder();
    for await (const chunk of bytes) await this.write(this.isTerminal ? legible(decoder, chunk) : chunk);
  }

  /** Prints a message for the person who runs the command. */
  note(text: string): void {
    process.stderr.write(`${printable(text)}\n`);
  }

  tone(tone: Tone, text: string): string {
    const safe = printable(text);
    return isColoured() ? `\u001b[${TONES[tone]}m${safe}\u001b[0m` : safe;
  }

  #cell(value: unknown): string {
    const text = shown(value);
    return this.isTerminal && text.length > CELL_MAX ? `${text.slice(0, CELL_MAX - 1)}…` : text;
  }
}

const BORDERLESS = Object.fromEntries(
  'top top-mid top-left top-right bottom bottom-mid bottom-left bottom-right left left-mid mid mid-mid right right-mid middle'
    .split(' ')
    .map((name) => [name, '']),
);

function isColoured(): boolean {
  return process.stdout.isTTY === true && !process.env.NO_COLOR && process.env.TERM !== 'dumb';
}

/** Decodes text in a form that is safe for a terminal; line breaks and tabs stay. */
function legible(decoder: TextDecoder, chunk: Uint8Array): string {
  const text = decoder.decode(chunk, { stream: true });
  return text.replace(CONTROL, (one) => (one === '\n' || one === '\t' ? one : escaped(one)));
}

function shown(value: unknown): string {
  if (value === null || value === undefined) return '';
  return printable(typeof value === 'object' ? JSON.stringify(value) : String(value));
}

/** A pipe whose reader has gone ends the work; it is not a fault. */
export function endWithReader(): void {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
    process.exit(0);
  });
}
