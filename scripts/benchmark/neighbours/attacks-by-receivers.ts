// Attacks by the receivers of an attacker's webhooks, which run in this process: they never respond, refuse connections,
// respond at once, or respond with what takes long to read.
// Sizes are bytes.

import { type Attack, json, records, type Strike } from './attack.ts';
import type { Attacker } from './attacker.ts';

/** Preliminary responses with thousands of short headers, and a body in chunks of one byte. */
const COSTLY_RESPONSES = [
  `HTTP/1.1 103 Early Hints\r\n${'a:\r\n'.repeat(4_000)}\r\n`.repeat(20),
  `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${'1\r\nx\r\n'.repeat(10_000)}0\r\n\r\n`,
];

export const RECEIVER_ATTACKS: readonly Attack[] = [
  {
    id: 'black-holes',
    label: '100 webhooks to a receiver that never responds, bulk creates',
    prepare: async (attacker) => {
      const hole = Bun.serve({
        port: 0,
        hostname: '127.0.0.1',
        idleTimeout: 0,
        fetch: () => new Promise<Response>(() => {}),
      });
      const strike = await manyWebhooks(attacker, hole.url.href);
      return async (signal) => {
        await strike(signal);
        await hole.stop(true);
      };
    },
  },
  {
    id: 'closed-ports',
    label: '100 webhooks to a port that refuses connections, bulk creates',
    prepare: async (attacker) => {
      const closed = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => new Response() });
      const url = closed.url.href;
      await closed.stop(true);
      return manyWebhooks(attacker, url);
    },
  },
  {
    id: 'deliveries',
    label: '100 webhooks to a receiver that responds at once, bulk creates',
    prepare: (attacker) => respondingWith(attacker, ['HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n']),
  },
  {
    id: 'costly-responses',
    label: '100 webhooks to a receiver whose responses take long to read, bulk creates',
    prepare: (attacker) => respondingWith(attacker, COSTLY_RESPONSES),
  },
];

/** Webhooks to a receiver that sends each of the responses in turn. */
async function respondingWith(attacker: Attacker, responses: readonly string[]): Promise<Strike> {
  let answered = 0;
  const receiver = Bun.listen({
    port: 0,
    hostname: '127.0.0.1',
    socket: { data: (socket) => void socket.write(responses[answered++ % responses.length] as string) },
  });
  const strike = await manyWebhooks(attacker, `http://127.0.0.1:${receiver.port}/`);
  return async (signal) => {
    await strike(signal);
    receiver.stop(true);
  };
}

/** 100 subscriptions to the receiver, and bulk calls that each make a delivery for every subscription and record. */
async function manyWebhooks(attacker: Attacker, url: string): Promise<Strike> {
  await attacker.entity('small', [{ key: 'title', type: 'text' }]);
  const subscription = { entity_name: 'small', event_types: ['record.created'], secret: 'a secret of the bench' };
  for (let at = 0; at < 100; at++) {
    await attacker.tryCall('POST', '/api/webhooks/subscriptions', { ...subscription, url: `${url}${at}` });
  }
  const body = json({ operations: Array.from({ length: 200 }, () => ({ op: 'create', data: { title: 'x' } })) });
  return (signal) => attacker.flood(signal, 2, () => ({ method: 'POST', path: `${records('small')}/bulk`, body }));
}
