// The service's log: one JSON line per entry on standard error, or a readable line on a terminal. Times are
// ISO 8601 UTC, durations milliseconds (`durationMs`). Secrets are redacted: keys, tokens, and values of
// fields with names like `authorization`. Errors are written with stack and cause, and only here.
// Contract: decisions#configuration.
import process from 'node:process';
import { LOG_LEVELS, type LogLevel } from '../config.ts';

export type LogFields = Record<string, unknown>;

export interface Log {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
  /** A log that adds these fields (`requestId`, `tenant`, `actor`, ...) to every entry. */
  child(fields: LogFields): Log;
}

export interface LogOptions {
  level: LogLevel;
  /** Receives one line with its line break; writes to standard error by default. */
  write?: (line: string) => void;
  /** Readable lines instead of JSON; by default when standard error is a terminal. */
  readable?: boolean;
}

/** Creates a log for entries of `level` and above. Does not throw for any fields. */
export function createLog(options: LogOptions): Log {
  const write = options.write ?? ((line: string) => void process.stderr.write(line));
  const readable = options.readable ?? (options.write === undefined && process.stderr.isTTY === true);
  const format = readable ? readableLine : jsonLine;
  const lowest = LOG_LEVELS.indexOf(options.level);

  const open = (bound: LogFields): Log => {
    const at = (level: LogLevel) => (message: string, fields?: LogFields) => {
      if (LOG_LEVELS.indexOf(level) < lowest) return;
      const safe = redactEntries(Object.entries({ ...bound, ...fields }), 0, []);
      write(format(new Date().toISOString(), level, redactText(message), safe));
    };
    return {
      debug: at('debug'),
      info: at('info'),
      warn: at('warn'),
      error: at('error'),
      child: (fields) => open({ ...bound, ...fields }),
    };
  };
  return open({});
}

function jsonLine(time: string, level: LogLevel, msg: string, fields: LogFields): string {
  return `${JSON.stringify({ time, level, msg, ...fields })}\n`;
}

function readableLine(time: string, level: LogLevel, msg: string, fields: LogFields): string {
  const pairs = Object.entries(fields).map(([name, value]) => ` ${name}=${readableValue(value)}`);
  return `${time.slice(11, 23)} ${level.padEnd(5)} ${msg}${pairs.join('')}\n`;
}

function readableValue(value: unknown): string {
  if (typeof value === 'string' && /^[\x21\x23-\x7e]+$/.test(value)) return value;
  const text = JSON.stringify(value) ?? 'undefined';
  // JSON leaves these as they are; some terminals execute them.
  return text.replace(/[\x7f-\x9f\u2028\u2029]/g, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

const REDACTED = '[redacted]';
const SECRET_NAME =
  /authorization|password|passwd|secret|token|cookie|api-?_?key|admin-?_?key|credential|private-?_?key/i;
const SECRET_VALUE =
  /\bsvc_[a-z]+_[A-Za-z0-9_-]{6,}|\beyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*){0,2}|\bwhsec_[A-Za-z0-9+/=_-]{6,}|\b(?:Bearer|AdminKey|Basic)\s+[A-Za-z0-9._~+/=-]{6,}|(?<=:\/\/[^\s/:@]*:)[^\s/@]+(?=@)/gi;

/** Replaces what looks like a key, a token or the password in a URL. */
function redactText(text: string): string {
  return text.replace(SECRET_VALUE, REDACTED);
}

const MAX_DEPTH = 5;

function redactEntries(entries: [string, unknown][], depth: number, above: readonly object[]): LogFields {
  const safe: LogFields = Object.create(null);
  for (const [name, value] of entries) {
    const isPlain = value === null || typeof value === 'boolean' || typeof value === 'number';
    const secret = SECRET_NAME.test(name) && !isPlain && !isCredentialName(name, value);
    safe[name] = secret ? REDACTED : redactValue(value, depth, above);
  }
  return safe;
}

/** `credential: { kind, id }` says which credential was used, and reveals nothing. */
function isCredentialName(name: string, value: unknown): boolean {
  const isRecord = typeof value === 'object' && value !== null;
  return name === 'credential' && isRecord && Object.keys(value).every((key) => key === 'kind' || key === 'id');
}

function redactValue(value: unknown, depth: number, above: readonly object[]): unknown {
  if (typeof value === 'string') return redactText(value);
  if (typeof value === 'bigint') return value.toString();
  if (typeof value === 'function' || typeof value === 'symbol') return undefined;
  if (typeof value !== 'object' || value === null) return value;
  if (above.includes(value)) return '[circular]';
  if (depth >= MAX_DEPTH) return '[deep]';
  const path = [...above, value];
  if (value instanceof Error) return redactEntries(errorEntries(value), depth + 1, path);
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? 'invalid date' : value.toISOString();
  if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`;
  if (Array.isArray(value)) return value.map((item) => redactValue(item, depth + 1, path));
  return redactEntries(Object.entries(value), depth + 1, path);
}

function errorEntries(error: Error): [string, unknown][] {
  const entries: [string, unknown][] = [
    ['name', error.name],
    ['message', error.message],
    ['stack', error.stack],
  ];
  const known = new Set(['name', 'message', 'stack', 'cause', 'query', 'parameters', 'args', 'detail', 'where']);
  for (const [name, value] of Object.entries(error)) if (!known.has(name)) entries.push([name, value]);
  if (error.cause !== undefined) entries.push(['cause', error.cause]);
  return entries;
}
