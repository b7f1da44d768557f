// The receiver of webhooks, in the process of the bench. `/ok/...` responds at once, `/held/...` when released,
// `/never/...` never. It counts the requests and passes their bodies to `onPost`.
// Stopped by the clean-up.

import type { Cleanup } from '../cleanup.ts';

export class Receiver {
  /** Requests so far. */
  count = 0;
  /** Called with the path and body of every request that is answered. */
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

  /** Holds the responses to `/held/...` until `release`. */
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
