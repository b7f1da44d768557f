// A large text that is served many times, such as the API document and the files of its page. It is compressed only once,
// outside the event loop, for clients that accept gzip.
// Contract: decisions#api-document.
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { acceptsCoding } from '../http/compression.ts';
import { keptBytes } from '../http/reply.ts';

const compress = promisify(gzip);

type Bytes = Uint8Array<ArrayBuffer>;

/** A large text, compressed once for clients that accept gzip. `load` must return the same bytes each time. */
export class Compressed {
  #compressed: Promise<Bytes> | undefined;

  constructor(private readonly load: () => Promise<Bytes>) {}

  /** The text in the encoding that the client accepts. */
  async answer(request: Request, headers: Record<string, string>): Promise<Response> {
    const both = { ...headers, vary: 'Accept-Encoding' };
    if (!acceptsCoding(request, 'gzip')) return keptBytes(await this.load(), both);
    this.#compressed ??= this.load().then(compress) as Promise<Bytes>;
    return keptBytes(await this.#compressed, { ...both, 'content-encoding': 'gzip' });
  }
}
