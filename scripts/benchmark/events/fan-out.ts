// The cost of an event per client: CPU of creating records while many clients receive them, minus the CPU of the same
// creates without clients, divided by the number of events received. Microseconds.
// Clients are connected to the service or to the bare handler only while that one is measured.

import { createMany, type EventFixture, type Side, Tenant } from './fixture.ts';
import { type Open, openSockets, openStreams, until } from './listeners.ts';
import { cpuOf, type EventRow, interleaved, type RowDefinition } from './rows.ts';

const STREAMS = 500;
const STREAM_EVENTS = 600;
const SOCKETS = 100;
const SOCKET_EVENTS = 2_000;
const ARRIVAL_MS = 60_000;

interface FanOut {
  open: Open;
  clients: number;
  events: number;
}

/** Rows of SSE and WebSocket. */
export async function fanOutRows(fixture: EventFixture): Promise<EventRow[]> {
  const tenant = await Tenant.make(fixture, 'events-fan-out');
  const unit = 'us a delivery';
  const sse: RowDefinition = {
    id: 'fan-out-sse',
    label: `SSE fan-out to ${STREAMS}`,
    against: 'bare streams, one write an event and client',
    unit,
    must: 1.0,
    goal: 0.3,
  };
  const ws: RowDefinition = {
    ...sse,
    id: 'fan-out-ws',
    label: `WebSocket fan-out to ${SOCKETS}`,
    against: 'bare WebSockets',
  };
  return [
    await compareFanOut(fixture, tenant, sse, { open: openStreams, clients: STREAMS, events: STREAM_EVENTS }),
    await compareFanOut(
      fixture,
      tenant,
      { ...ws, must: 4, goal: 2 },
      { open: openSockets, clients: SOCKETS, events: SOCKET_EVENTS },
    ),
  ];
}

function compareFanOut(
  fixture: EventFixture,
  tenant: Tenant,
  definition: RowDefinition,
  spread: FanOut,
): Promise<EventRow> {
  const measure = (side: Side) => () => fanOutCost(fixture, side, spread);
  return interleaved(definition, fixture.run.options.rounds, measure(fixture.bare), measure(tenant.side()));
}

async function fanOutCost(fixture: EventFixture, side: Side, { open, clients, events }: FanOut): Promise<number> {
  const { scratch } = fixture.run;
  const alone = await cpuOf(side, scratch, () => createMany(side, events));
  const listeners = await open(side.address, clients);
  try {
    const together = await cpuOf(side, scratch, async () => {
      await createMany(side, events);
      await until('the events of all clients', () => listeners.received() >= events, ARRIVAL_MS);
    });
    return (together - alone) / (clients * events);
  } finally {
    await listeners.close();
  }
}
