// CSV in the browser: records of a stream of text by any separator, with quotes; and lines as the API takes them. A
// record keeps the number of the line on which it begins, so that a refusal can be found in the person's file. A record
// beyond the API's limit is not kept: a quote that is never closed would otherwise take the rest of the file into memory.
export interface CsvRecord {
  line: number;
  cells: string[];
  /** Why it cannot be read; it has no cells then. */
  problem?: string;
}

const QUOTE = 34;
const LINE_FEED = 10;
const CARRIAGE_RETURN = 13;
/** Of a record; the API takes no longer ones. */
export const MOST_CHARACTERS = 1_048_576;

/** The separator of a file by its first line: the one that occurs most outside of quotes. */
export function separatorOf(head: string): string {
  const first = /^(?:"(?:[^"]|"")*"|[^"\n])*/.exec(head)?.[0].replace(/"(?:[^"]|"")*"/g, '') ?? '';
  const counts = [',', ';', '\t'].map((one) => [one, first.split(one).length] as const);
  return counts.reduce((best, one) => (one[1] > best[1] ? one : best))[0];
}

/** Takes text in pieces and gives the records that have ended. Works on slices: a file has millions of characters. */
export class CsvReader {
  #cells: string[] = [];
  #cell = '';
  #isQuoted = false;
  /** A quote was read inside quotes: the end of them, or the first of two. */
  #isAfterQuote = false;
  #isAfterReturn = false;
  #line = 1;
  #begins = 1;
  #length = 0;
  readonly #separator: number;

  constructor(separator: string) {
    this.#separator = separator.charCodeAt(0);
  }

  read(text: string): CsvRecord[] {
    const records: CsvRecord[] = [];
    let from = 0;
    for (let at = 0; at < text.length; at += 1) {
      const code = text.charCodeAt(at);
      const isSecondOfTwo = code === LINE_FEED && this.#isAfterReturn;
      if (code === CARRIAGE_RETURN || (code === LINE_FEED && !isSecondOfTwo)) this.#line += 1;
      this.#isAfterReturn = code === CARRIAGE_RETURN;
      if (this.#isAfterQuote) {
        this.#isAfterQuote = false;
        from = at;
        if (code === QUOTE) continue;
        this.#isQuoted = false;
      }
      if (this.#isQuoted) {
        if (code !== QUOTE) continue;
        this.#keep(text, from, at);
        this.#isAfterQuote = true;
      } else if (code === this.#separator) {
        this.#keep(text, from, at);
        this.#endCell();
      } else if (code === LINE_FEED || code === CARRIAGE_RETURN) {
        if (!isSecondOfTwo) {
          this.#keep(text, from, at);
          this.#endRecord(records);
        }
        this.#begins = this.#line;
      } else if (code === QUOTE && from === at && this.#cell === '') this.#isQuoted = true;
      else continue;
      from = at + 1;
    }
    if (!this.#isAfterQuote) this.#keep(text, from, text.length);
    return records;
  }

  /** The last record, when the text did not end with a line break. */
  end(): CsvRecord[] {
    const records: CsvRecord[] = [];
    if (this.#length > 0 || this.#isQuoted || this.#cells.length > 0) this.#endRecord(records);
    return records;
  }

  #keep(text: string, from: number, to: number): void {
    this.#length += to - from;
    if (this.#length > MOST_CHARACTERS) this.#cell = '';
    else if (to > from) this.#cell += text.slice(from, to);
  }

  #endCell(): void {
    this.#cells.push(this.#cell);
    this.#cell = '';
    this.#length += 1;
  }

  #endRecord(records: CsvRecord[]): void {
    this.#endCell();
    const cells = this.#cells;
    const line = this.#begins;
    if (this.#length > MOST_CHARACTERS) {
      records.push({ line, cells: [], problem: 'is longer than 1 MiB; a quote may not be closed' });
    } else if (cells.length > 1 || cells[0] !== '') records.push({ line, cells });
    this.#cells = [];
    this.#isQuoted = false;
    this.#isAfterQuote = false;
    this.#length = 0;
  }
}

export function csvLine(cells: readonly string[]): string {
  const line = cells.map((cell) => (/[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell)).join(',');
  return `${line === '' ? '""' : line}\n`;
}
