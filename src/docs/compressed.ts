// A large text that is served many times, such as the API document and the files of its page. It is compressed once, outside
// the event loop, for the clients that accept gzip.
// Contract: decisions#api-document.
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';

const compress = promisify(gzip);

type Text = string | Uint8Array<ArrayBuffer>;

/** A large static text, compressed once for clients that accept gzip. `load` must return the same text each time. */
export class Compressed {
  #compressed: Promise<Uint8Array<ArrayBuffer>> | undefined;

  constructor(private readonly load: () => Promise<Text>) {}

  /** The text in the encoding that the client accepts. */
  async answer(request: Request, headers: Record<string, string>): Promise<Response> {
    const both = { ...headers, vary: 'Accept-Encoding' };
    if (!acceptsGzip(request)) return new Response(await this.load(), { headers: both });
    this.#compressed ??= this.load().then(compress) as Promise<Uint8Array<ArrayBuffer>>;
    return new Response(await this.#compressed, { headers: { ...both, 'content-encoding': 'gzip' } });
  }
}

function acceptsGzip(request: Request): boolean {
  const accepted = request.headers.get('accept-encoding') ?? '';
  return accepted.split(',').some((coding) => /^\s*gzip\s*(;\s*q=(1|0?\.0*[1-9])[\d.]*\s*)?$/i.test(coding));
}
