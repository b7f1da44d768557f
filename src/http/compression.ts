// JSON responses compressed for clients that accept gzip, from 1 KiB on. A response with an ETag is not compressed: its tag
// would name two bodies. Long work is done outside the event loop, in a few slots that the tenants share fairly; when no slot is
// free, the response is sent uncompressed rather than late. Credentials come in headers, not in cookies, so no other page can
// make a browser send requests whose compressed length reveals a secret.
// Contract: decisions#responses.
import { Readable } from 'node:stream';
import { promisify } from 'node:util';
import { createGzip, gzip, gzipSync } from 'node:zlib';
import { Semaphore } from '../runtime/concurrency.ts';
import { currentWork } from '../runtime/work.ts';
import { bodyBytesOf, bodyOf, withBody } from './reply.ts';

const FROM_BYTES = 1_024;
/** The fastest level: for a list of 20 records it takes 33 µs and compresses 7.8 KB to 2.7; level 6 takes 265 µs for 1.8 KB. */
const OPTIONS = { level: 1 };
/** Up to this many bytes, a thread costs more than it saves: 122 µs for those 7.8 KB. */
const AT_ONCE_BYTES = 32_768;
const places = new Semaphore({ name: 'compression', slots: 4, shareWaitingMax: 1 });
const gzipOne = promisify<Uint8Array, typeof OPTIONS, Uint8Array>(gzip);

/** Whether `Accept-Encoding` names the coding with a weight above 0, and not below that of the response as it is. */
export function acceptsCoding(request: Request, coding: string): boolean {
  const weight = weightOf(request, coding);
  return weight !== undefined && weight > 0 && weight >= (weightOf(request, 'identity') ?? 0);
}

/** The weight of the coding; undefined when the client does not name it. */
function weightOf(request: Request, coding: string): number | undefined {
  for (const part of request.headers.get('accept-encoding')?.split(',') ?? []) {
    const [name, ...parameters] = part.split(';').map((text) => text.trim().toLowerCase());
    if (name !== coding) continue;
    const [, weight = '1'] = parameters.map((text) => /^q=([01](?:\.\d*)?)$/.exec(text)).find((found) => found) ?? [];
    return Number(weight);
  }
  return undefined;
}

/** The response, compressed if the client accepts that and it is worthwhile. */
export function compressed(request: Request, response: Response): Response | Promise<Response> {
  const { headers } = response;
  const isHead = request.method === 'HEAD';
  const bytes = isHead ? Number(headers.get('content-length')) : (bodyBytesOf(response) ?? 0);
  if (bytes < FROM_BYTES || !isCompressible(headers)) return response;
  noteVary(headers);
  if (isHead) return response;
  const leave = acceptsCoding(request, 'gzip') ? places.tryEnter(currentWork()) : null;
  return leave === null ? response : compress(response).finally(leave);
}

function noteVary(headers: Headers): void {
  const vary = headers.get('vary') ?? '';
  if (!/accept-encoding/i.test(vary)) headers.append('vary', 'Accept-Encoding');
}

function isCompressible(headers: Headers): boolean {
  if (headers.has('etag') || headers.has('content-encoding')) return false;
  return headers.get('content-type')?.startsWith('application/json') === true;
}

async function compress(response: Response): Promise<Response> {
  const chunks = bodyOf(response)?.chunks ?? [new Uint8Array(await response.arrayBuffer())];
  const packed = await gzipped(chunks);
  response.headers.set('content-encoding', 'gzip');
  return withBody(response, packed);
}

async function gzipped(chunks: readonly Uint8Array[]): Promise<Uint8Array[]> {
  const [only] = chunks;
  if (only !== undefined && chunks.length === 1) {
    return [only.length <= AT_ONCE_BYTES ? gzipSync(only, OPTIONS) : await gzipOne(only, OPTIONS)];
  }
  return Array.fromAsync<Uint8Array>(Readable.from(chunks).pipe(createGzip(OPTIONS)));
}
