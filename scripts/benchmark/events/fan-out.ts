// The cost of an event per client: CPU of creating records while many clients receive them, minus the CPU of the same
// creates without clients, divided by the number of events received. Microseconds.
// Clients are connected to the service or to the bare handler only while that one is measured.

import { cpuOf, type FigureRow, interleaved, type RowDefinition } from '../figure-rows.ts';
import { createMany, type EventFixture, type Side, Tenant } from './fixture.ts';
import { type Open, openSockets, openStreams, until } from './listeners.ts';

const CLIENTS = 500;
const EVENTS = 600;
const ARRIVAL_MS = 60_000;

const LIMITS = { unit: 'us a delivery', must: 3.0, goal: 1.5 };
const SSE: RowDefinition = {
  id: 'fan-out-sse',
  label: `SSE fan-out to ${CLIENTS}`,
  against: 'bare streams, one write a stream and loop turn',
  ...LIMITS,
};
const WS: RowDefinition = {
  id: 'fan-out-ws',
  label: `WebSocket fan-out to ${CLIENTS}`,
  against: 'bare WebSockets',
  ...LIMITS,
};

/** Rows of SSE and WebSocket. */
export async function fanOutRows(fixture: EventFixture): Promise<FigureRow[]> {
  const tenant = await Tenant.make(fixture, 'events-fan-out');
  return [
    await compareFanOut(fixture, tenant, SSE, openStreams),
    await compareFanOut(fixture, tenant, WS, openSockets),
  ];
}

function compareFanOut(
  fixture: EventFixture,
  tenant: Tenant,
  definition: RowDefinition,
  open: Open,
): Promise<FigureRow> {
  const measure = (side: Side) => () => fanOutCost(fixture, side, open);
  return interleaved(definition, fixture.run.options.rounds, measure(fixture.bare), measure(tenant.side()));
}

async function fanOutCost(fixture: EventFixture, side: Side, open: Open): Promise<number> {
  const { scratch } = fixture.run;
  const alone = await cpuOf(side, scratch, () => createMany(side, EVENTS));
  const listeners = await open(side.address, CLIENTS);
  try {
    const together = await cpuOf(side, scratch, async () => {
      await createMany(side, EVENTS);
      await until('the events of all clients', () => listeners.received() >= EVENTS, ARRIVAL_MS);
    });
    return (together - alone) / (CLIENTS * EVENTS);
  } finally {
    await listeners.close();
  }
}
