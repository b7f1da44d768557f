// Reads one response of HTTP/1.x from the bytes of a connection, strictly. Bytes that another reader might interpret differently are
// invalid, and a connection that sends more than one response is not used again. Reading ends with the response, or once its body has
// as many bytes or lines as LIMITS.webhook allows. The responses to all attempts of a tenant may arrive at the same time, so one of
// them must take little time to read, however it is made. The start of the body is kept for the log of attempts.
// Failures: InvalidResponse. Contract: decisions#webhook-requests.
import { Buffer } from 'node:buffer';
import { LIMITS } from '../../limits.ts';
import { type Body, bodyUntilClose, ChunkedBody, LengthBody } from './response-body.ts';
import { ResponseStart } from './response-start.ts';

const { responseBytes, responseHeaderBytes, responseHeadersMax, informationalMax } = LIMITS.webhook;

/** The receiver does not speak HTTP/1.x, or sends an ambiguous response. */
export class InvalidResponse extends Error {
  constructor() {
    super('invalid response');
  }
}

interface Head {
  status: number;
  body: Body;
  isKeptAlive: boolean;
}

const SWITCHING_PROTOCOLS = 101;
const START = 'HTTP/1.';
const END = '\r\n\r\n';
const STATUS_LINE = /^HTTP\/1\.([01]) ([1-9]\d\d)(?: [\t\x20-\x7e\x80-\xff]*)?$/;
const HEADER = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):([\t\x20-\x7e\x80-\xff]*)$/;

export class ResponseReader {
  /** Null until the head of the response has been read. */
  status: number | null = null;
  /** Whether the connection may be used again, once the response is complete. */
  isReusable = false;
  readonly said = new ResponseStart();
  /** The bytes of a head that is not complete yet. */
  #head: Buffer | null = null;
  #informational = 0;
  /** What the heads of this response, including informational ones, may still have. */
  #headerBytesLeft = responseHeaderBytes;
  #headersLeft = responseHeadersMax;
  #body: Body | null = null;
  #bodyBytes = 0;

  /** Whether no further bytes are needed. */
  read(bytes: Buffer): boolean {
    const rest = this.#body === null ? this.#readHead(bytes) : bytes;
    if (rest === null || this.#body === null) return false;
    this.#bodyBytes += rest.length;
    const left = this.#body.read(rest, this.said);
    if (left === null) {
      const isEnough = this.#bodyBytes > responseBytes || this.#body.isCut;
      if (isEnough) this.isReusable = false;
      return isEnough;
    }
    if (left > 0) this.isReusable = false;
    return true;
  }

  /** Whether the response is complete now that the connection has ended. */
  end(): boolean {
    return this.#body === bodyUntilClose;
  }

  /** The bytes after the head; null while it is incomplete. */
  #readHead(bytes: Buffer): Buffer | null {
    let rest = this.#head === null ? bytes : Buffer.concat([this.#head, bytes]);
    for (;;) {
      const end = rest.indexOf(END, 0, 'latin1');
      if ((end < 0 ? rest.length : end) > this.#headerBytesLeft) throw new InvalidResponse();
      if (!START.startsWith(rest.toString('latin1', 0, START.length))) throw new InvalidResponse();
      if (end < 0) {
        this.#head = rest;
        return null;
      }
      const [first = '', ...headers] = rest.toString('latin1', 0, end).split('\r\n', this.#headersLeft + 2);
      this.#headerBytesLeft -= end;
      this.#headersLeft -= headers.length;
      if (this.#headersLeft < 0) throw new InvalidResponse();
      const { status, body, isKeptAlive } = parseHead(first, headers);
      rest = rest.subarray(end + END.length);
      if (status >= 200) {
        this.status = status;
        this.#body = body;
        this.isReusable = isKeptAlive && body !== bodyUntilClose;
        return rest;
      }
      this.#informational += 1;
      if (status === SWITCHING_PROTOCOLS || this.#informational > informationalMax) throw new InvalidResponse();
    }
  }
}

function parseHead(first: string, lines: readonly string[]): Head {
  const [, minor, digits] = STATUS_LINE.exec(first) ?? [];
  if (digits === undefined) throw new InvalidResponse();
  const status = Number(digits);
  let isKeptAlive = minor === '1';
  let length: string | undefined;
  let coding: string | undefined;
  for (const line of lines) {
    const [, name = '', given = ''] = HEADER.exec(line) ?? [];
    if (name === '') throw new InvalidResponse();
    const value = given.trim().toLowerCase();
    switch (name.toLowerCase()) {
      case 'content-length':
        if (!/^\d{1,15}$/.test(value) || (length !== undefined && length !== value)) throw new InvalidResponse();
        length = value;
        break;
      case 'transfer-encoding':
        coding = coding === undefined ? value : `${coding},${value}`;
        break;
      case 'connection':
        isKeptAlive &&= !value.includes('close');
        break;
    }
  }
  if (coding !== undefined && length !== undefined) throw new InvalidResponse();
  return { status, body: bodyOf(status, length, coding), isKeptAlive };
}

function bodyOf(status: number, length: string | undefined, coding: string | undefined): Body {
  if (status < 200 || status === 204 || status === 304) return new LengthBody(0);
  if (coding === 'chunked') return new ChunkedBody(() => new InvalidResponse());
  if (coding?.includes('chunked') === true) throw new InvalidResponse();
  return length === undefined ? bodyUntilClose : new LengthBody(Number(length));
}
