// The cost of clients that receive nothing: memory of idle connections, and CPU of creating records while there are
// subscriptions and streams that do not match. Memory in KiB and MiB, CPU in microseconds.
// `idle` restarts the service, so that it does not measure memory that earlier rows used.

import { residentMiB } from '../cpu.ts';
import { type FigureRow, row } from '../figure-rows.ts';
import { compare, totalCpus } from '../measure.ts';
import type { Gauge } from '../verdict.ts';
import { createWorkload, type EventFixture, Tenant } from './fixture.ts';
import { type Listeners, type Open, openSockets, openStreams } from './listeners.ts';

const SUBSCRIPTIONS = 100;
const STREAMS = 500;
const IDLE_CONNECTIONS = 2_000;
const WARM_CONNECTIONS = 200;
const IDLE_MS = 3_000;

/** CPU of a create while there are subscriptions, or streams, that do not match it. */
export async function quietRows(fixture: EventFixture): Promise<FigureRow[]> {
  const unit = 'us CPU a create';
  const definition = { against: 'create with none', unit, must: 1.1, goal: 1.05 };
  const [subscribed, streamed] = [
    { ...definition, id: 'quiet-subscriptions', label: `create, ${SUBSCRIPTIONS} subscriptions that do not match` },
    { ...definition, id: 'quiet-streams', label: `create, ${STREAMS} open streams of another entity` },
  ];
  return [await row(subscribed, () => besideSubscriptions(fixture)), await row(streamed, () => besideStreams(fixture))];
}

/** Half of the subscriptions are for other events of the entity, half for another entity. */
async function besideSubscriptions(fixture: EventFixture) {
  const { receiver, run } = fixture;
  const alone = await Tenant.make(fixture, 'events-alone');
  const tenant = await Tenant.make(fixture, 'events-subscribed', 'others');
  for (let at = 0; at < SUBSCRIPTIONS / 2; at++) {
    await tenant.subscribe('items', receiver.url('ok', at), ['record.deleted']);
    await tenant.subscribe('others', receiver.url('ok', at));
  }
  const [without, beside] = [createWorkload(alone.side()), createWorkload(tenant.side())];
  return totalCpus(await compare(without, beside, run.options, run.scratch));
}

async function besideStreams(fixture: EventFixture) {
  const tenant = await Tenant.make(fixture, 'events-streamed', 'others');
  let open: Listeners | undefined;
  const close = async () => {
    await open?.close();
    open = undefined;
  };
  const listen = async () => {
    open ??= await openStreams(tenant.side('others').address, STREAMS);
  };
  const [without, beside] = [createWorkload(tenant.side(), close), createWorkload(tenant.side(), listen)];
  try {
    return totalCpus(await compare(without, beside, fixture.run.options, fixture.run.scratch));
  } finally {
    await close();
  }
}

/** Memory of an idle connection, and of the process without connections. */
export async function idleGauges(fixture: EventFixture): Promise<Gauge[]> {
  const tenant = await Tenant.make(fixture, 'events-idle');
  const idle = { id: 'idle', label: 'memory of an idle process', unit: 'MiB', must: 120, goal: 90 };
  const [sse, ws] = [
    { id: 'idle-sse', label: 'memory of an idle SSE connection', unit: 'KiB', must: 15, goal: 10 },
    { id: 'idle-ws', label: 'memory of an idle WebSocket', unit: 'KiB', must: 8, goal: 5 },
  ];
  const streams = await idleMemory(fixture, tenant, openStreams);
  const sockets = await idleMemory(streams.fixture, tenant, openSockets);
  return [
    { ...idle, value: streams.processMiB },
    { ...sse, value: streams.connectionKiB },
    { ...ws, value: sockets.connectionKiB },
  ];
}

/** In a fresh process. Some connections are opened and closed first, to allocate what only the first ones need. */
async function idleMemory(before: EventFixture, tenant: Tenant, open: Open) {
  const fixture = await before.restarted();
  const address = { ...tenant.side().address, port: fixture.server.port };
  const resident = async () => {
    await Bun.sleep(IDLE_MS);
    return residentMiB(fixture.server.pid);
  };
  const processMiB = await resident();
  await (await open(address, WARM_CONNECTIONS)).close();
  const warm = await resident();
  const listeners = await open(address, IDLE_CONNECTIONS);
  const full = await resident();
  await listeners.close();
  return { fixture, processMiB, connectionKiB: ((full - warm) * 1_024) / IDLE_CONNECTIONS };
}
