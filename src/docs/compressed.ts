// A large text that is served many times, such as the API document and the files of its page. It is compressed once, outside
// the event loop, for the clients that accept gzip. All responses share its bytes, however many clients do not read theirs.
// Contract: decisions#api-document, neighbours#byte-budgets.
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { keptBytes } from '../http/reply.ts';

const compress = promisify(gzip);

/** A large static text, compressed once for clients that accept gzip. `load` is called once. */
export class Compressed {
  #plain: Promise<Uint8Array> | undefined;
  #compressed: Promise<Uint8Array> | undefined;

  constructor(private readonly load: () => Promise<string | Uint8Array>) {}

  /** The text in the encoding that the client accepts. */
  async answer(request: Request, headers: Record<string, string>): Promise<Response> {
    const both = { ...headers, vary: 'Accept-Encoding' };
    this.#plain ??= this.load().then((text) => (typeof text === 'string' ? Buffer.from(text) : text));
    if (!acceptsGzip(request)) return keptBytes(await this.#plain, both);
    this.#compressed ??= this.#plain.then((bytes) => compress(bytes));
    return keptBytes(await this.#compressed, { ...both, 'content-encoding': 'gzip' });
  }
}

function acceptsGzip(request: Request): boolean {
  const accepted = request.headers.get('accept-encoding') ?? '';
  return accepted.split(',').some((coding) => /^\s*gzip\s*(;\s*q=(1|0?\.0*[1-9])[\d.]*\s*)?$/i.test(coding));
}
