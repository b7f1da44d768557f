// Connections of attackers, raw, so that what they send need not be whole requests, and all may send at once.
// What comes back is read and thrown away; only that the service closes a connection is noticed.
// Times are milliseconds.

import type { Host } from './attacker.ts';

const DRIP_MS = 1_000;

export interface Sending {
  first: string;
  /** Sent again every second. */
  drip?: string;
}

/** Keeps so many connections open; one that the service closes is opened again. */
export async function connections(
  { port }: Host,
  signal: AbortSignal,
  count: number,
  sending: () => Sending,
): Promise<void> {
  const connection = async (): Promise<void> => {
    while (!signal.aborted) {
      const closed = Promise.withResolvers<void>();
      const { first, drip } = sending();
      const socket = await Bun.connect({
        hostname: '127.0.0.1',
        port,
        socket: {
          open: (opened) => void opened.write(first),
          data: () => undefined,
          close: () => closed.resolve(),
          error: () => closed.resolve(),
        },
      }).catch(() => undefined);
      if (socket === undefined) {
        await Bun.sleep(DRIP_MS);
        continue;
      }
      const end = (): void => void socket.terminate();
      signal.addEventListener('abort', end, { once: true });
      const dripping = drip === undefined ? undefined : setInterval(() => socket.write(drip), DRIP_MS);
      await closed.promise;
      clearInterval(dripping);
      signal.removeEventListener('abort', end);
    }
  };
  await Promise.all(Array.from({ length: count }, connection));
}
