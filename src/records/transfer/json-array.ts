// Splits a JSON array of any size into its items, in constant memory. The array may be in an object, under `items`, `data` or
// `records`, as APIs return it. Items are not parsed here: an item that is too long or not JSON is reported when it is parsed,
// and reading continues with the next one.
// Failures: 400 when the body is not an array, or when the array does not end.
// Contract: decisions#import.
import { invalidField, type ServiceError } from '../../errors.ts';
import { LIMITS } from '../../limits.ts';
import type { Line } from './lines.ts';

const LIST_NAMES: ReadonlySet<string> = new Set(['items', 'data', 'records']);
const NAME_BYTES_MAX = 100;
const [QUOTE, BACKSLASH, COMMA, COLON, LINE_FEED] = [0x22, 0x5c, 0x2c, 0x3a, 0x0a];
const [OPEN_LIST, CLOSE_LIST, OPEN, CLOSE] = [0x5b, 0x5d, 0x7b, 0x7d];
const SPACE = new Set([0x20, 0x09, 0x0d, LINE_FEED]);
const BYTE_ORDER_MARK = new Set([0xef, 0xbb, 0xbf]);
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** What the parser expects next: of the file, of the object around the array, or of the array. */
type Expected = 'start' | 'name' | 'colon' | 'value' | 'other value' | 'first item' | 'item' | 'in item' | 'end';

export class JsonArrayReader {
  #expected: Expected = 'start';
  #isInObject = false;
  #name: number[] = [];
  /** Within a value: the number of open brackets, and whether the position is in a string, or after a backslash in one. */
  #depth = 0;
  #inText = false;
  #isEscaped = false;
  #parts: Uint8Array[] = [];
  #bytes = 0;
  #line = 1;
  #start = 1;
  #items = 0;

  /** The items that end in this chunk. */
  push(chunk: Uint8Array): Line[] {
    const found: Line[] = [];
    let from = 0;
    for (let at = 0; at < chunk.length; at++) {
      const byte = chunk[at] as number;
      if (byte === LINE_FEED) this.#line += 1;
      if (this.#expected === 'in item') {
        if (!this.#endsBefore(byte, CLOSE_LIST)) continue;
        this.#take(chunk.subarray(from, at));
        this.#finish(found);
        this.#expected = byte === COMMA ? 'item' : 'end';
      } else if (this.#begins(byte)) {
        from = at;
        this.#start = this.#line;
        this.#endsBefore(byte, CLOSE_LIST);
      }
    }
    // The sender may reuse the chunk's memory: copy.
    if (this.#expected === 'in item') this.#take(chunk.slice(from));
    return found;
  }

  /** 400 when the array has not ended. */
  end(): Line[] {
    if (this.#expected !== 'end') throw this.#fault('ends before the array does');
    return [];
  }

  /** Takes a byte outside of items. Returns whether an item begins with it. */
  #begins(byte: number): boolean {
    if (this.#expected === 'other value') return this.#skip(byte);
    if (this.#inText) return this.#nameByte(byte);
    if (SPACE.has(byte) || (this.#expected === 'start' && BYTE_ORDER_MARK.has(byte))) return false;
    switch (this.#expected) {
      case 'start':
        if (byte !== OPEN && byte !== OPEN_LIST) throw this.#fault('is not a JSON array');
        this.#isInObject = byte === OPEN;
        this.#expected = this.#isInObject ? 'name' : 'first item';
        return false;
      case 'name':
        if (byte === COMMA) return false;
        if (byte !== QUOTE)
          throw this.#fault('is neither a JSON array nor an object with one under items, data or records');
        this.#name = [];
        this.#inText = true;
        return false;
      case 'colon':
        if (byte !== COLON) throw this.#fault('is not valid JSON');
        this.#expected = 'value';
        return false;
      case 'value':
        if (byte === OPEN_LIST && LIST_NAMES.has(String.fromCharCode(...this.#name))) {
          this.#expected = 'first item';
          return false;
        }
        this.#expected = 'other value';
        return this.#skip(byte);
      case 'end':
        // The rest of the object does not matter.
        if (!this.#isInObject) throw this.#fault('has something after the array');
        return false;
      default:
        if (byte === CLOSE_LIST && this.#expected === 'first item') {
          this.#expected = 'end';
          return false;
        }
        this.#expected = 'in item';
        return true;
    }
  }

  #nameByte(byte: number): false {
    if (byte === QUOTE && !this.#isEscaped) {
      this.#inText = false;
      this.#expected = 'colon';
    } else if (this.#name.length < NAME_BYTES_MAX) this.#name.push(byte);
    this.#isEscaped = byte === BACKSLASH && !this.#isEscaped;
    return false;
  }

  #skip(byte: number): false {
    if (this.#endsBefore(byte, CLOSE)) {
      if (byte === CLOSE) throw this.#fault('has no array under items, data or records');
      this.#expected = 'name';
    }
    return false;
  }

  /** Whether the value has ended before this byte, which is a comma or closes what the value is in. */
  #endsBefore(byte: number, closing: number): boolean {
    if (this.#inText) {
      if (this.#isEscaped) this.#isEscaped = false;
      else if (byte === BACKSLASH) this.#isEscaped = true;
      else if (byte === QUOTE) this.#inText = false;
      return false;
    }
    if (byte === QUOTE) this.#inText = true;
    else if (this.#depth === 0 && (byte === COMMA || byte === closing)) return true;
    else if (byte === OPEN || byte === OPEN_LIST) this.#depth += 1;
    else if (byte === CLOSE || byte === CLOSE_LIST) this.#depth -= 1;
    return false;
  }

  #take(part: Uint8Array): void {
    this.#bytes += part.length;
    if (this.#bytes > LIMITS.transfer.lineBytesMax) this.#parts = [];
    else this.#parts.push(part);
  }

  #finish(found: Line[]): void {
    this.#items += 1;
    const at = { line: this.#start, item: this.#items, bytes: this.#bytes };
    found.push({ ...at, ...this.#read() });
    this.#parts = [];
    this.#bytes = 0;
    this.#depth = 0;
  }

  #read(): { text: string } | { problem: string } {
    const { lineBytesMax } = LIMITS.transfer;
    if (this.#bytes > lineBytesMax) return { problem: `is longer than ${lineBytesMax} bytes` };
    try {
      return { text: utf8.decode(Buffer.concat(this.#parts)) };
    } catch {
      return { problem: 'is not valid UTF-8' };
    }
  }

  #fault(problem: string): ServiceError {
    return invalidField('body', `${problem} (line ${this.#line}, after ${this.#items} items)`);
  }
}
