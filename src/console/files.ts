// The built files of the console: the index page and assets with a hash in their names, each also compressed beside
// itself (`.br`, `.gz`). They are read when requested, so that a new build is served without a restart; an asset is kept,
// since its name changes with its content, and many that are requested at once are sent in turns of the event loop. A name
// that the build does not make is never looked up, so no path leads out of the folder. Contract: interface#console.
import { readFile } from 'node:fs/promises';
import { notFound, ServiceError } from '../errors.ts';
import { acceptsCoding } from '../http/compression.ts';
import { keptBytes } from '../http/reply.ts';

const FOLDER = new URL('../../dist/console/', import.meta.url);
const INDEX = 'index.html';
/** What the build names its assets: a name, a hash, a type. */
const ASSET = /^[A-Za-z0-9_-]{1,80}-[a-z0-9]{8}\.(js|css|svg)$/;
const TYPES: Readonly<Record<string, string>> = {
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
  html: 'text/html; charset=utf-8',
};
/** The compressed forms, best first. */
const CODINGS = [
  { coding: 'br', suffix: '.br' },
  { coding: 'gzip', suffix: '.gz' },
] as const;

const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "font-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

const HEADERS = {
  'content-security-policy': POLICY,
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), geolocation=(), microphone=()',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  vary: 'Accept-Encoding',
};

/** The page of every path of the console. 404 when the console is not built. */
export async function indexPage(request: Request): Promise<Response> {
  const file = await encoded(request, INDEX);
  if (file === undefined) throw new ServiceError('NOT_FOUND', 'the console is not built; ./scripts/start builds it');
  return new Response(file.bytes, { headers: { ...headersOf(INDEX, file.coding), 'cache-control': 'no-store' } });
}

/** An asset; 304 when the client has it, 404 when the build has no such file. Its name changes with its content. */
export async function asset(request: Request, name: string): Promise<Response> {
  const file = ASSET.test(name) ? await encoded(request, name) : undefined;
  if (file === undefined) throw notFound('file');
  const headers = {
    ...headersOf(name, file.coding),
    'cache-control': 'public, max-age=31536000, immutable',
    etag: `"${name}${file.coding === undefined ? '' : `-${file.coding}`}"`,
  };
  if (isKnown(request, headers.etag)) return new Response(null, { status: 304, headers });
  return keptBytes(file.bytes, headers);
}

function headersOf(name: string, coding: string | undefined): Record<string, string> {
  const type = TYPES[name.slice(name.lastIndexOf('.') + 1)] as string;
  return { ...HEADERS, 'content-type': type, ...(coding === undefined ? {} : { 'content-encoding': coding }) };
}

interface Encoded {
  bytes: Bytes;
  coding: string | undefined;
}

/** The file in the best coding that the client accepts; undefined when there is no such file. */
async function encoded(request: Request, name: string): Promise<Encoded | undefined> {
  for (const { coding, suffix } of CODINGS) {
    if (!acceptsCoding(request, coding)) continue;
    const bytes = await read(name + suffix);
    if (bytes !== undefined) return { bytes, coding };
  }
  const bytes = await read(name);
  return bytes === undefined ? undefined : { bytes, coding: undefined };
}

type Bytes = Uint8Array<ArrayBuffer>;
/** The assets read so far. */
const kept = new Map<string, Promise<Bytes | undefined>>();

function read(name: string): Promise<Bytes | undefined> {
  if (name.startsWith(INDEX)) return readFromDisk(name);
  const known = kept.get(name);
  if (known !== undefined) return known;
  const reading = readFromDisk(name);
  kept.set(name, reading);
  const forget = () => void kept.delete(name);
  reading.then((bytes) => bytes ?? forget(), forget);
  return reading;
}

async function readFromDisk(name: string): Promise<Bytes | undefined> {
  try {
    return (await readFile(new URL(name, FOLDER))) as Bytes;
  } catch (cause) {
    if ((cause as { code?: unknown }).code === 'ENOENT') return undefined;
    throw cause;
  }
}

function isKnown(request: Request, etag: string): boolean {
  const known = (request.headers.get('if-none-match') ?? '').split(',').map((tag) => tag.trim().replace(/^W\//, ''));
  return known.includes(etag) || known.includes('*');
}
