// Starts the HTTP and WebSocket server on the current runtime. The application sees only standard `Request`s and WebSockets that carry
// text, so it is the same on both runtimes.
// Failures: an Error with the reason, such as a port that is in use.
// Contract: decisions#configuration, decisions#operations.
import { serveBun } from './bun.ts';
import type { Running, ServeOptions } from './contract.ts';
import { serveDeno } from './deno.ts';

/** Resolves once connections are accepted. */
export async function serve<D extends object>(options: ServeOptions<D>): Promise<Running> {
  return 'Deno' in globalThis ? serveDeno(options) : serveBun(options);
}
