// What listeners cost a process that have nothing to hear: memory of idle connections, and creating records while
// subscriptions and streams are there that do not match.

import { residentMiB } from '../cpu.ts';
import { compare, wholeCpu } from '../measure.ts';
import type { Gauge } from '../report.ts';
import { type Listeners, type Open, openSockets, openStreams } from './listeners.ts';
import { type EventRow, row } from './rows.ts';
import { createShot, type EventWorld, Tenant } from './world.ts';

const SUBSCRIPTIONS = 100;
const STREAMS = 500;
const IDLE_CONNECTIONS = 2_000;
const WARM_CONNECTIONS = 200;
const IDLE_MS = 3_000;

/** CPU of a create beside subscriptions, and beside streams, of other things. */
export async function quietRows(world: EventWorld): Promise<EventRow[]> {
  const unit = 'us CPU a create';
  const aim = { against: 'create with none', unit, must: 1.1, goal: 1.05 };
  const [subscribed, streamed] = [
    { ...aim, id: 'quiet-subscriptions', label: `create, ${SUBSCRIPTIONS} subscriptions that do not match` },
    { ...aim, id: 'quiet-streams', label: `create, ${STREAMS} open streams of another entity` },
  ];
  return [await row(subscribed, () => besideSubscriptions(world)), await row(streamed, () => besideStreams(world))];
}

/** Half of them for other changes of the entity, half for another entity. */
async function besideSubscriptions(world: EventWorld) {
  const { receiver, run } = world;
  const alone = await Tenant.make(world, 'events-alone');
  const tenant = await Tenant.make(world, 'events-subscribed', 'others');
  for (let at = 0; at < SUBSCRIPTIONS / 2; at++) {
    await tenant.subscribe('items', receiver.url('ok', at), ['record.deleted']);
    await tenant.subscribe('others', receiver.url('ok', at));
  }
  return wholeCpus(await compare(createShot(alone.side()), createShot(tenant.side()), run.options, run.scratch));
}

async function besideStreams(world: EventWorld) {
  const tenant = await Tenant.make(world, 'events-streamed', 'others');
  let open: Listeners | undefined;
  const close = async () => {
    await open?.close();
    open = undefined;
  };
  const listen = async () => {
    open ??= await openStreams(tenant.side('others').address, STREAMS);
  };
  const [without, beside] = [createShot(tenant.side(), close), createShot(tenant.side(), listen)];
  try {
    return wholeCpus(await compare(without, beside, world.run.options, world.run.scratch));
  } finally {
    await close();
  }
}

function wholeCpus({ baseline, subject }: Awaited<ReturnType<typeof compare>>) {
  return { baseline: wholeCpu(baseline), subject: wholeCpu(subject) };
}

/** KiB of memory that an idle connection takes, and MiB of the process without any. */
export async function idleGauges(world: EventWorld): Promise<Gauge[]> {
  const tenant = await Tenant.make(world, 'events-idle');
  const idle = { id: 'idle', label: 'memory of an idle process', unit: 'MiB', must: 160, goal: 100 };
  const [sse, ws] = [
    { id: 'idle-sse', label: 'memory of an idle SSE connection', unit: 'KiB', must: 20, goal: 12 },
    { id: 'idle-ws', label: 'memory of an idle WebSocket', unit: 'KiB', must: 10, goal: 5 },
  ];
  const streams = await idleMemory(world, tenant, openStreams);
  const sockets = await idleMemory(streams.world, tenant, openSockets);
  return [
    { ...idle, value: streams.processMiB },
    { ...sse, value: streams.connectionKiB },
    { ...ws, value: sockets.connectionKiB },
  ];
}

/** In a fresh process: some connections first, to have everything there that the first ones bring with them. */
async function idleMemory(before: EventWorld, tenant: Tenant, open: Open) {
  const world = await before.restarted();
  const address = { ...tenant.side().address, port: world.server.port };
  const resident = async () => {
    await Bun.sleep(IDLE_MS);
    return residentMiB(world.server.pid);
  };
  const processMiB = await resident();
  await (await open(address, WARM_CONNECTIONS)).close();
  const warm = await resident();
  const listeners = await open(address, IDLE_CONNECTIONS);
  const full = await resident();
  await listeners.close();
  return { world, processMiB, connectionKiB: ((full - warm) * 1_024) / IDLE_CONNECTIONS };
}
