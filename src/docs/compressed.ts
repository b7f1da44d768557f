// A large text that is served many times, such as the API document and the files of its page. It is compressed once, outside
// the event loop, for the clients that accept gzip.
// Contract: decisions#api-document.
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { keptBytes } from '../http/reply.ts';

const compress = promisify(gzip);

type Bytes = Uint8Array<ArrayBuffer>;
type Text = string | Bytes;

/**
 * A large static text, compressed once for clients that accept gzip. `load` must return the same text each time. `isShared`: it
 * returns the same bytes, which are then sent in pieces, not copied for each client.
 */
export class Compressed {
  #compressed: Promise<Bytes> | undefined;

  constructor(
    private readonly load: () => Promise<Text>,
    private readonly isShared = false,
  ) {}

  /** The text in the encoding that the client accepts. */
  async answer(request: Request, headers: Record<string, string>): Promise<Response> {
    const both = { ...headers, vary: 'Accept-Encoding' };
    if (!acceptsGzip(request)) return this.#respond(await this.load(), both);
    this.#compressed ??= this.load().then(compress) as Promise<Bytes>;
    return this.#respond(await this.#compressed, { ...both, 'content-encoding': 'gzip' });
  }

  #respond(text: Text, headers: Record<string, string>): Response {
    return this.isShared && typeof text !== 'string' ? keptBytes(text, headers) : new Response(text, { headers });
  }
}

function acceptsGzip(request: Request): boolean {
  const accepted = request.headers.get('accept-encoding') ?? '';
  return accepted.split(',').some((coding) => /^\s*gzip\s*(;\s*q=(1|0?\.0*[1-9])[\d.]*\s*)?$/i.test(coding));
}
