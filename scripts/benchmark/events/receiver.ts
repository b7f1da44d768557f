// The receiver of webhooks, in the bench's own process. `/ok/...` answers at once, `/held/...` once the bench says so,
// `/never/...` not at all. It counts the POSTs it has got and hands their bodies to whoever wants them.

import type { Cleanup } from '../cleanup.ts';

export class Receiver {
  /** POSTs so far. */
  count = 0;
  /** Sees every POST that will be answered at once: its path and its body. */
  onPost: ((path: string, body: string) => void) | undefined;
  readonly #server: Bun.Server<undefined>;
  #release = () => {};
  #held: Promise<void> = Promise.resolve();

  constructor(cleanup: Cleanup) {
    this.#server = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      idleTimeout: 0,
      fetch: (request) => this.#answer(request),
    });
    cleanup.later('stop the receiver', () => this.#server.stop(true));
  }

  url(kind: 'ok' | 'held' | 'never', name: string | number = ''): string {
    return `http://127.0.0.1:${this.#server.port}/${kind}/${name}`;
  }

  /** From now on what is held waits; resolves nothing by itself. */
  hold(): void {
    this.#held = new Promise((resolve) => {
      this.#release = resolve;
    });
  }

  release(): void {
    this.#release();
  }

  async #answer(request: Request): Promise<Response> {
    const path = new URL(request.url).pathname;
    const body = await request.text();
    if (path.startsWith('/never/')) return new Promise(() => {});
    if (path.startsWith('/held/')) await this.#held;
    this.count++;
    this.onPost?.(path, body);
    return new Response(null, { status: 204 });
  }
}
