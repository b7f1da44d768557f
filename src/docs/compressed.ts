// Large texts that seldom change: sent gzipped to clients that take it, packed once and kept. The
// plain form is loaded whenever it is asked for, since hardly anybody does.
// Contract: decisions#api-document.
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';

const pack = promisify(gzip);

type Text = string | Uint8Array<ArrayBuffer>;

/** `load` gives the same text each time. */
export class Compressed {
  #packed: Promise<Uint8Array<ArrayBuffer>> | undefined;

  constructor(private readonly load: () => Promise<Text>) {}

  /** The text, with headers that say whether it is packed. */
  async answer(request: Request, headers: Record<string, string>): Promise<Response> {
    const both = { ...headers, vary: 'Accept-Encoding' };
    if (!takesGzip(request)) return new Response(await this.load(), { headers: both });
    this.#packed ??= this.load().then(pack) as Promise<Uint8Array<ArrayBuffer>>;
    return new Response(await this.#packed, { headers: { ...both, 'content-encoding': 'gzip' } });
  }
}

function takesGzip(request: Request): boolean {
  const accepted = request.headers.get('accept-encoding') ?? '';
  return accepted.split(',').some((coding) => /^\s*gzip\s*(;\s*q=(1|0?\.0*[1-9])[\d.]*\s*)?$/i.test(coding));
}
