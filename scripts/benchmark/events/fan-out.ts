// What an event costs for each of many clients: CPU of creating records with clients that all get them, less that of
// the same records with none, over the deliveries. Microseconds.

import { type Open, openSockets, openStreams, until } from './listeners.ts';
import { type Aim, cpuOf, type EventRow, interleaved } from './rows.ts';
import { createMany, type EventWorld, type Side, Tenant } from './world.ts';

const STREAMS = 500;
const STREAM_EVENTS = 600;
const SOCKETS = 100;
const SOCKET_EVENTS = 2_000;
const ARRIVAL_MS = 60_000;

interface Spread {
  open: Open;
  clients: number;
  events: number;
}

/** Rows of SSE and WebSocket. */
export async function fanOutRows(world: EventWorld): Promise<EventRow[]> {
  const tenant = await Tenant.make(world, 'events-fan-out');
  const unit = 'us a delivery';
  const sse: Aim = {
    id: 'fan-out-sse',
    label: `SSE fan-out to ${STREAMS}`,
    against: 'bare streams, one write an event and client',
    unit,
    must: 1.0,
    goal: 0.3,
  };
  const ws: Aim = { ...sse, id: 'fan-out-ws', label: `WebSocket fan-out to ${SOCKETS}`, against: 'bare WebSockets' };
  return [
    await compareSpread(world, tenant, sse, { open: openStreams, clients: STREAMS, events: STREAM_EVENTS }),
    await compareSpread(
      world,
      tenant,
      { ...ws, must: 4, goal: 2 },
      { open: openSockets, clients: SOCKETS, events: SOCKET_EVENTS },
    ),
  ];
}

/** Each side's clients are open in its own rounds only. */
function compareSpread(world: EventWorld, tenant: Tenant, aim: Aim, spread: Spread): Promise<EventRow> {
  const measure = (side: Side) => () => costOfSpreading(world, side, spread);
  return interleaved(aim, world.run.options.rounds, measure(world.bare), measure(tenant.side()));
}

async function costOfSpreading(world: EventWorld, side: Side, { open, clients, events }: Spread): Promise<number> {
  const { scratch } = world.run;
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
