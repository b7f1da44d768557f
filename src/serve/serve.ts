// Starts the HTTP and WebSocket server on whichever runtime this is. The application behind it sees
// Web requests and text sockets only, so that it is the same on both.
// Failures: a port that is taken, or an address that is not this machine's, is an Error in words.
// Contract: decisions#configuration, decisions#operations.
import { serveBun } from './bun.ts';
import type { Running, ServeOptions } from './contract.ts';
import { serveDeno } from './deno.ts';

/** Listens; resolves once connections are accepted. */
export async function serve<D extends object>(options: ServeOptions<D>): Promise<Running> {
  return 'Deno' in globalThis ? serveDeno(options) : serveBun(options);
}
