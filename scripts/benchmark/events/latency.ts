// The time from sending a record until a client receives its event: one record at a time, p50 in milliseconds.
// The bare side broadcasts, or posts to the receiver, before it responds.
// An event that does not arrive within ten seconds fails the row.

import { type FigureRow, interleaved, quantile, type RowDefinition } from '../figure-rows.ts';
import type { Run } from '../run.ts';
import { bodyOf, type EventFixture, type Side, send, Tenant } from './fixture.ts';
import { type Listeners, openSockets, openStreams } from './listeners.ts';
import type { Receiver } from './receiver.ts';

const SAMPLES = 150;
const WARM_SAMPLES = 50;
const LOST_MS = 10_000;
const PAUSE_MS = 2;

type WaitFor = (marker: string) => Promise<void>;

/** Rows to SSE, WebSocket and webhook. */
export async function latencyRows(fixture: EventFixture): Promise<FigureRow[]> {
  const { run, receiver, bare } = fixture;
  const tenant = await Tenant.make(fixture, 'events-latency', 'hooked');
  const rows: FigureRow[] = [];
  for (const [id, label, open, must, goal] of [
    ['latency-sse', 'write to SSE, p50', openStreams, 1.5, 1.2],
    ['latency-ws', 'write to WebSocket, p50', openSockets, 1.5, 1.0],
  ] as const) {
    const sides = [bare, tenant.side()] as const;
    const listeners = await Promise.all(sides.map(({ address }) => open(address, 1)));
    const waitFor = (at: number): WaitFor => (listeners[at] as Listeners).waitFor;
    rows.push(await compareLatency(run, definition(id, label, must, goal), sides, [waitFor(0), waitFor(1)]));
    await Promise.all(listeners.map((listener) => listener.close()));
  }
  await tenant.subscribe('hooked', receiver.url('ok'));
  const sides = [hooked(bare, receiver), tenant.side('hooked')] as const;
  const waitFor = posted(receiver);
  rows.push(
    await compareLatency(run, definition('latency-webhook', 'write to webhook, p50', 2.0, 1.6), sides, [
      waitFor,
      waitFor,
    ]),
  );
  receiver.onPost = undefined;
  return rows;
}

function definition(id: string, label: string, must: number, goal: number): RowDefinition {
  return { id, label, against: 'bare insert, then broadcast', unit: 'ms', must, goal };
}

function compareLatency(
  { options }: Run,
  definition: RowDefinition,
  [bare, service]: readonly [Side, Side],
  [waitBare, waitService]: readonly [WaitFor, WaitFor],
): Promise<FigureRow> {
  return interleaved(
    definition,
    options.rounds,
    (round) => p50(bare, waitBare, round),
    (round) => p50(service, waitService, round),
  );
}

async function p50(side: Side, waitFor: WaitFor, round: number): Promise<number> {
  const latencies: number[] = [];
  for (let at = -WARM_SAMPLES; at < SAMPLES; at++) {
    const marker = `marker-${round}-${at + WARM_SAMPLES}-of-${side.server.pid}`;
    const seen = within(waitFor(marker));
    const begun = performance.now();
    const sent = send(side, side.target(bodyOf(marker)));
    await seen;
    const took = performance.now() - begun;
    await sent;
    if (at >= 0) latencies.push(took);
    await Bun.sleep(PAUSE_MS);
  }
  return quantile(latencies, 0.5);
}

function within(seen: Promise<void>): Promise<void> {
  const late = Bun.sleep(LOST_MS).then(() => {
    throw new Error(`an event was not seen within ${LOST_MS} ms`);
  });
  late.catch(() => {});
  return Promise.race([seen, late]);
}

/** The bare side with a webhook. */
function hooked(bare: Side, receiver: Receiver): Side {
  const hook = encodeURIComponent(receiver.url('ok'));
  return {
    ...bare,
    target: (body) => {
      const target = bare.target(body);
      return { ...target, path: `${target.path}?hook=${hook}` };
    },
  };
}

function posted(receiver: Receiver): WaitFor {
  return (marker) =>
    new Promise((resolve) => {
      receiver.onPost = (_, body) => {
        if (body.includes(marker)) resolve();
      };
    });
}
