// The parts of the Postgres wire protocol (version 3) that the multiplexer needs: message boundaries,
// authentication, and cleanup after a closed connection. Lengths are bytes.
// Nothing here fails: unreadable bytes are `incomplete` or `rejected`.
import { timingSafeEqual } from 'node:crypto';

const SSL_REQUEST = 80877103;
const CANCEL_REQUEST = 80877102;
const PROTOCOL_3 = 196608;
const MAX_STARTUP = 10_000;

export type Opening =
  | { kind: 'incomplete' }
  | { kind: 'encryption' | 'startup'; length: number }
  | { kind: 'rejected' };

/** Classifies the first bytes of a connection. Cancel requests are rejected: the engine cannot cancel. */
export function readOpening(bytes: Buffer): Opening {
  if (bytes.length < 8) return { kind: 'incomplete' };
  const length = bytes.readInt32BE(0);
  const code = bytes.readInt32BE(4);
  if (code === SSL_REQUEST && length === 8) return { kind: 'encryption', length };
  if (code === CANCEL_REQUEST || code !== PROTOCOL_3 || length > MAX_STARTUP) return { kind: 'rejected' };
  return bytes.length < length ? { kind: 'incomplete' } : { kind: 'startup', length };
}

/** The first message, or undefined while it is incomplete. */
export function firstMessage(bytes: Buffer): Buffer | undefined {
  if (bytes.length < 5) return undefined;
  const length = 1 + bytes.readUInt32BE(1);
  return bytes.length < length ? undefined : bytes.subarray(0, length);
}

/** Whether the engine answers this message with ReadyForQuery, which ends a unit of work. */
export function endsUnit(type: string): boolean {
  return type === 'Q' || type === 'S';
}

/** The name of the statement that a Parse message prepares; empty for the unnamed one. */
export function preparedName(message: Buffer): string {
  return message.toString('utf8', 5, message.indexOf(0, 5));
}

export function isPassword(message: Buffer, password: string): boolean {
  const given = message.subarray(5, message.length - 1);
  const expected = Buffer.from(password);
  return message[0] === 112 && given.length === expected.length && timingSafeEqual(given, expected);
}

export const SYNC = frame('S', '');
export const NO_ENCRYPTION = Buffer.from('N');
export const ASK_PASSWORD = frame('R', int32(3));

export function query(text: string): Buffer {
  return frame('Q', `${text}\0`);
}

export function closeStatement(name: string): Buffer {
  return frame('C', `S${name}\0`);
}

export function fatal(sqlState: string, message: string): Buffer {
  return frame('E', `SFATAL\0VFATAL\0C${sqlState}\0M${message}\0\0`);
}

/** AuthenticationOk, session parameters, an unused cancellation key, and ReadyForQuery. */
export function welcome(serverVersion: string): Buffer {
  const parameters = {
    server_version: serverVersion,
    client_encoding: 'UTF8',
    server_encoding: 'UTF8',
    DateStyle: 'ISO, MDY',
    TimeZone: 'UTC',
    integer_datetimes: 'on',
    standard_conforming_strings: 'on',
  };
  return Buffer.concat([
    frame('R', int32(0)),
    ...Object.entries(parameters).map(([name, value]) => frame('S', `${name}\0${value}\0`)),
    frame('K', Buffer.concat([int32(0), int32(0)])),
    frame('Z', 'I'),
  ]);
}

function frame(type: string, body: string | Buffer): Buffer {
  const bytes = Buffer.from(body as string);
  return Buffer.concat([Buffer.from(type), int32(bytes.length + 4), bytes]);
}

function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
}
